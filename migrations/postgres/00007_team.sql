-- +goose Up
-- Agents that call agents: what a parent asks of its children, and what it holds for them.

ALTER TABLE runs ADD COLUMN guard json;                             -- of a child: its parent's policy and taint; NULL: nothing

-- A row with a child is a grant: what is held for a run until it has ended. Its
-- amount is what is left of it; what the run reserves and spends is drawn from it.
ALTER TABLE budget_reservations ADD COLUMN child_id    uuid;         -- NULL: an attempt
ALTER TABLE budget_reservations ADD COLUMN drawn_from  uuid;         -- attempt_id of the grant in the same budget; NULL: of none
ALTER TABLE budget_reservations ADD COLUMN drawn_pico  bigint NOT NULL DEFAULT 0 CHECK (drawn_pico >= 0);
CREATE INDEX budget_reservations_grant ON budget_reservations (child_id) WHERE child_id IS NOT NULL AND state = 'reserved';
CREATE INDEX budget_reservations_drawn ON budget_reservations (drawn_from) WHERE drawn_from IS NOT NULL;

-- +goose Down
DROP INDEX budget_reservations_drawn;
DROP INDEX budget_reservations_grant;
ALTER TABLE budget_reservations DROP COLUMN drawn_pico;
ALTER TABLE budget_reservations DROP COLUMN drawn_from;
ALTER TABLE budget_reservations DROP COLUMN child_id;
ALTER TABLE runs DROP COLUMN guard;
