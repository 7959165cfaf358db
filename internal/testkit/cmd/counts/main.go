// Command counts prints figures about the source code that docs/decisions records: lines and files, lengths of
// functions, and the frequency of avoided words in comments.
//
//	go run ./internal/testkit/cmd/counts [DIR]
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// avoided lists the words to count in comments.
var avoided = []string{"whoever", "nobody", "somebody", "meanwhile", "told", "what is"}

var words = regexp.MustCompile(`[A-Za-z']+`)

// source holds the figures of the product files, which exclude tests, test tools and benchmarks.
type source struct {
	files, small, lines int
	functions           []int          // number of lines of each function
	methods             map[string]int // number of methods by type, as package.Type
	commentWords        int
	found               map[string]int // number of occurrences of each avoided word in comments
}

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	s := source{methods: map[string]int{}, found: map[string]int{}}
	if err := s.read(dir); err != nil {
		fmt.Fprintln(os.Stderr, "counts:", err)
		os.Exit(1)
	}
	s.print()
}

func (s *source) read(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if e.IsDir() && (slices.Contains([]string{"bench", "bin", "tools", "testdata", ".git"}, e.Name()) || rel == "internal/testkit") {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		return s.add(path, filepath.Dir(rel))
	})
}

func (s *source) add(path, dir string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	s.files++
	if strings.Count(string(text), "\n") <= 25 {
		s.small++
	}
	comments := map[int]bool{}
	for _, group := range f.Comments {
		comment := strings.ToLower(group.Text())
		s.commentWords += len(words.FindAllString(comment, -1))
		for _, w := range avoided {
			s.found[w] += len(regexp.MustCompile(`\b`+w+`\b`).FindAllString(comment, -1))
		}
		if first := set.Position(group.Pos()); first.Column == 1 || strings.TrimSpace(lineBefore(string(text), first.Offset)) == "" {
			for n := first.Line; n <= set.Position(group.End()).Line; n++ {
				comments[n] = true
			}
		}
	}
	for n, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) != "" && !comments[n+1] {
			s.lines++
		}
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		s.functions = append(s.functions, set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1)
		if fn.Recv != nil {
			s.methods[dir+"."+receiver(fn.Recv.List[0].Type)]++
		}
	}
	return nil
}

func lineBefore(text string, offset int) string {
	return text[strings.LastIndexByte(text[:offset], '\n')+1 : offset]
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (s *source) print() {
	slices.Sort(s.functions)
	at := func(p int) int { return s.functions[min(len(s.functions)-1, len(s.functions)*p/100)] }
	fmt.Printf("product code lines\t%d in %d files\n", s.lines, s.files)
	fmt.Printf("files of 25 lines or fewer\t%d\n", s.small)
	fmt.Printf("function lines p50 / p90 / p99 / max\t%d / %d / %d / %d\n", at(50), at(90), at(99), at(100))
	types := make([]string, 0, len(s.methods))
	for name := range s.methods {
		types = append(types, name)
	}
	slices.SortFunc(types, func(a, b string) int { return cmp.Or(s.methods[b]-s.methods[a], cmp.Compare(a, b)) })
	for _, name := range types[:min(5, len(types))] {
		fmt.Printf("methods of %s\t%d\n", name, s.methods[name])
	}
	total := 0
	for _, w := range avoided {
		total += s.found[w]
		fmt.Printf("%q per 10,000 words in comments\t%.1f\n", w, float64(s.found[w])*10_000/float64(s.commentWords))
	}
	fmt.Printf("all of them per 10,000 words in comments\t%.1f\n", float64(total)*10_000/float64(s.commentWords))
}
