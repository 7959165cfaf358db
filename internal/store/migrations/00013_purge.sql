-- +goose Up

-- Whether the versions of a sandbox go with it: 'yes', 'no', or empty while that is not known here. Servers from
-- before this column kept the mark as an object beside the versions; the job that removes versions looks for it
-- once a tombstone without a known answer has ended. Tombstones that have ended already were looked at.
alter table sandboxes add column purge text not null default '';
update sandboxes set purge = 'no' where deleted_at is not null and state = 'terminated';
