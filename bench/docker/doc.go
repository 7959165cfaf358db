// Package docker brings up a Docker of its own, for Berth to be measured against.
//
// [Start] runs Debian's dockerd in mount and network namespaces of its own. What it keeps is in a directory
// of the caller's, its sockets and state are in a /run that only it sees: the machine's network, mounts and
// services are not touched, and [Daemon.Close] leaves nothing behind. The embedded [Client] speaks the Engine API over the daemon's socket, as any program
// would. [Image] packs programs of this machine with their libraries, so that both sides run the same ones.
package docker
