-- +goose Up
-- What a submission says about its run's prompt: a text, skills, that configured layers are off.

ALTER TABLE runs ADD COLUMN prompt json;                            -- NULL: nothing

-- +goose Down
ALTER TABLE runs DROP COLUMN prompt;
