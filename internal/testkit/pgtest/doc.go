// Package pgtest runs a private PostgreSQL server for tests.
//
//   - [New] gives a test a new database on a server that all tests of the process share.
//   - [NewTemplate] prepares a database once (migrations, rows) and clones it for every test.
//   - [Main] stops the shared server at the end of TestMain. A process that ends without it, also by
//     kill -9, leaves no server and no file behind.
//   - [Start] starts a separate server, which the test can stop and start.
//
// On a machine without PostgreSQL the test fails, and its message names the package to install; it is never skipped.
// If the test runs as root, the server runs as another user, because PostgreSQL refuses to run as root.
package pgtest
