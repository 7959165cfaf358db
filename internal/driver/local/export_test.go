package local

// What the tests of this package call by name.
var (
	RemoveTree = removeTree
	Explain    = explain
	ReadFacts  = readFacts
)

// Facts are what an explanation goes by.
type Facts = facts

// Fact makes facts.
func Fact(change func(*Facts)) Facts {
	var f Facts
	change(&f)
	return f
}

func (f *facts) SwitchOff() { f.usernsSwitch = true }
func (f *facts) AppArmor()  { f.apparmor = true }
func (f *facts) Container() { f.container = true }
func (f *facts) NoOverlay() { f.noOverlay = true }
func (f *facts) NoUserns()  { f.noUserns = true }
func (f *facts) Root()      { f.root = true }
