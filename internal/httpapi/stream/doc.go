// Package stream writes server-sent events ([Writer], [Relay]) and long answers ([Progressing]), and reads long
// uploads ([Upload]).
package stream
