package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit/claudetest"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// realPrompt makes the agent answer, use a tool and answer again.
const realPrompt = "[[say I look.]][[bash date]][[say It is {{last_result}}]]"

// realTurns measures a turn of Claude Code through Berth, from the prompt to the last event, with the saved version. The
// peer is the same turn of the CLI alone.
func realTurns(ctx context.Context, s *stage, model string, print func(figure) error) error {
	conv, err := s.open(ctx, "claude")
	if err != nil {
		return err
	}
	bare, err := s.openCLI(model)
	if err != nil {
		return err
	}
	f, err := compare(ctx, "a turn of Claude Code to the CLI alone", s.talk.real, timed(func(ctx context.Context) error {
		turn, err := s.client.Conversations.Prompt(ctx, conv, api.Prompt{Prompt: realPrompt})
		if err != nil {
			return err
		}
		var last api.TurnEvent
		for e, err := range turn.Events() {
			if err != nil {
				return err
			}
			last = e
		}
		if last.Status != api.TurnCompleted || last.Version == "" {
			return fmt.Errorf("the turn ended: %+v", last)
		}
		return nil
	}), timed(bare.turn), goal{ratio: 1.1})
	if err != nil {
		return err
	}
	f.note = "with a version saved; of the same session, resumed"
	return print(f)
}

// cli runs turns of one session with the Claude Code CLI, without Berth.
type cli struct {
	program, dir, session string
	env                   []string
	resumes               bool
}

func (s *stage) openCLI(model string) (*cli, error) {
	dir, err := programtest.Ensure(program.ClaudeCode.Name, "")
	if err != nil {
		return nil, err
	}
	c := &cli{program: filepath.Join(dir, "bin", "claude"), dir: filepath.Join(s.home.dir, "bare"), session: store.NewID()}
	c.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "CLAUDE_CONFIG_DIR=" + filepath.Join(c.dir, ".claude"), "IS_SANDBOX=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
	}, claudetest.Env(model)...)
	return c, os.MkdirAll(c.dir, 0o755)
}

func (c *cli) turn(ctx context.Context) error {
	args := []string{"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--dangerously-skip-permissions"}
	if c.resumes {
		args = append(args, "--resume", c.session)
	} else {
		args = append(args, "--session-id", c.session)
	}
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, c.env, strings.NewReader(realPrompt)
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"is_error":false`) {
		return fmt.Errorf("the CLI alone: %w: %.500s", err, out)
	}
	c.resumes = true
	return nil
}
