package dynamotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

func tables(t *testing.T, b Table) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := b.Client().ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		return 0, err
	}
	return len(out.TableNames), nil
}

func TestTestsShareAServer(t *testing.T) {
	Setenv(t)
	a, b := New(t), New(t)
	if a.Endpoint != b.Endpoint || a.Name == b.Name || os.Getenv("AWS_SECRET_ACCESS_KEY") != s3test.SecretKey {
		t.Errorf("%+v, %+v", a, b)
	}
	if !strings.HasPrefix(a.URL(), "dynamodb://"+a.Name+"?endpoint=http%3A%2F%2F127.0.0.1%3A") {
		t.Errorf("its address is %s", a.URL())
	}
	if n, err := tables(t, a); n != 0 || err != nil {
		t.Errorf("%d tables, %v", n, err)
	}
}

func TestServerIsKilledAndStartedAgain(t *testing.T) {
	s := Start(t)
	b := s.Table(t)
	before := s.Pid
	s.Kill()
	if err := syscall.Kill(before, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", before, err)
	}
	if _, err := tables(t, b); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if n, err := tables(t, b); n != 0 || err != nil || s.Endpoint != b.Endpoint || s.Pid == before {
		t.Errorf("%d tables at %s, %v", n, s.Endpoint, err)
	}
	if other := (&Server{port: s.port}); other.start(t.Context()) == nil {
		other.Kill()
		t.Error("two servers have one port")
	} else if err := other.start(t.Context()); !strings.Contains(err.Error(), "EADDRINUSE") {
		t.Errorf("it does not say why: %v", err)
	}
}

// asChild makes this test a process that starts a server and is killed.
const asChild = "BERTH_TEST_DYNAMO_CHILD"

func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv(asChild) != "" {
		s := Start(t)
		fmt.Printf("started %d\n", s.Pid)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), asChild+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "started %d", &pid); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	testkit.Eventually(t, 30*time.Second, func() error {
		if err := syscall.Kill(pid, 0); pid == 0 || !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %v", pid, err)
		}
		return nil
	})
}

func TestFates(t *testing.T) {
	p, b := Before(t, New(t))
	for name, c := range map[string]struct {
		fate Fate
		says string
	}{
		"passed on": {},
		"answered":  {Fate{Status: 200, Body: `{"TableNames":[]}`}, ""},
		"error":     {Fate{Status: 503}, "503"},
		"code":      {Fate{Status: 400, Code: "ThrottlingException"}, "ThrottlingException: as the test wants it"},
		"cut":       {Fate{Cut: true}, "EOF"},
		"lost":      {Fate{Lost: true}, "EOF"},
		"other":     {Fate{Status: 200, Type: "text/html", Body: "<html>"}, "deserialization"},
	} {
		p.Set(func(op string) Fate {
			if op != "ListTables" {
				t.Errorf("the operation is %q", op)
			}
			return c.fate
		})
		before := p.Calls("ListTables")
		n, err := tables(t, b)
		if n != 0 || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if p.Calls("ListTables") == before {
			t.Errorf("%s: it was not counted", name)
		}
	}
}
