-- +goose Up
-- Which rule of a policy asks a person.

ALTER TABLE approvals ADD COLUMN rule text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE approvals DROP COLUMN rule;
