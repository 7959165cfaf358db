// Package fake is a driver without machines: an instance is a file. Tests and the first five minutes
// use it; nothing runs in it, so it has no guest. Its instances have files where [MakeFiles] was called: see
// [Open].
//
// [New] opens a directory. All its state is there, so that any number of processes may share it and
// it outlives them:
//
//	instances/  one file per instance, named by its ID
//	ended/      the same file once the instance is destroyed, so that no ID is ever used twice
//	calls.jsonl what was asked of the driver, see [Driver.Log]
//	faults.json faults for every process, see [SetFaults]
//	fired/      which of those faults were used up
//	files/      the files of each instance, if the folder is there
//	tmp/        files being written
//
// No call takes a lock. Create claims its Key by linking a complete file to the Key's name, which one
// process can do; Destroy links that file into ended/, which one process can do and nobody can undo;
// whatever has a file in ended/ does not exist. A process may be stopped or killed between any two
// steps without holding up or misleading the others.
//
// Faults come in two kinds: rules of one [Driver] value ([Driver.On]) and faults shared by all
// processes ([SetFaults]). [Driver.Vanish], [Driver.Halt], [Driver.Become], [Driver.ForgetKey] and
// [Driver.Litter] change the directory behind the back of whoever uses the driver.
package fake
