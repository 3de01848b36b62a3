-- +goose Up
-- Lists of artifacts by tenant, by name and by verdict, newest first.

CREATE INDEX artifact_versions_tenant  ON artifact_versions (tenant, run_id, seq);
CREATE INDEX artifact_versions_name    ON artifact_versions (name, run_id, seq);
CREATE INDEX artifact_versions_verdict ON artifact_versions (verdict, run_id, seq);

-- +goose Down
DROP INDEX artifact_versions_verdict;
DROP INDEX artifact_versions_name;
DROP INDEX artifact_versions_tenant;
