-- +goose Up

-- Signed URLs of terminals: the id of the terminal's command, and whether viewers may only look. A URL of a port has none.
alter table preview_urls add column terminal text not null default '';
alter table preview_urls add column view_only boolean not null default false;
