-- +goose Up

-- Which changes of a workspace are not in a version yet, and what its last start brought back.
-- unsaved_since is the first moment from which files may differ from the newest version, changed_at
-- the last use that may have changed one. save_failure is why the last save outside a turn failed.
alter table sandboxes add column unsaved_since timestamptz;
alter table sandboxes add column changed_at timestamptz;
alter table sandboxes add column save_failure text;
alter table sandboxes add column restored_version text not null default '';
alter table sandboxes add column restored_saved_at timestamptz;
alter table sandboxes add column restored_at timestamptz;
-- Changes since lost_since were never saved and went with an instance at lost_at.
alter table sandboxes add column lost_since timestamptz;
alter table sandboxes add column lost_at timestamptz;
create index sandboxes_unsaved on sandboxes (unsaved_since) where unsaved_since is not null;
