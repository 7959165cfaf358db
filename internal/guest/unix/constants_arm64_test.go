package unix

var constantsHere []constant
