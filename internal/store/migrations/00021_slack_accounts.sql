-- +goose Up

-- Whether people in a Slack workspace who have no account get one, and the key with which the signed URLs end that they
-- open. No one has the key itself: it stands for the workspace, and is revoked when that is disconnected.
alter table slack_workspaces add column create_accounts boolean not null default true;
alter table slack_workspaces add column key_id text not null default '';
