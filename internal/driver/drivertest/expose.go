package drivertest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

func runExpose(run runner) {
	run("Expose", testExpose)
	run("ExposeExpires", testExposeExpires)
	run("ExposeForged", testExposeForged)
	run("ExposeUnknown", testExposeUnknown)
	run("ExposeDestroyed", testExposeDestroyed)
}

func (s *suite) exposer() driver.Exposer {
	exposer, ok := driver.As[driver.Exposer](s.d)
	s.check(ok, "the ability to expose comes and goes")
	return exposer
}

// exposed runs a program in an instance and returns its URL.
func (s *suite) exposed(st driver.Status, text string, lifetime time.Duration) (driver.Exposure, uint16) {
	s.Helper()
	port := s.h.Serve(s.T, s.d, st.ID, text)
	at, err := s.exposer().Expose(s.ctx(), st.ID, port, lifetime)
	s.check(err == nil, "Expose: %v", err)
	u, err := url.Parse(at.URL)
	s.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil, "Expose returns the URL %q", at.URL)
	s.check(at.Token == "" || at.Header != "", "Expose returns a token without the header that carries it")
	s.check(at.ExpiresAt.IsZero() || time.Now().Before(at.ExpiresAt), "Expose returns a URL that expired at %s", at.ExpiresAt)
	return at, port
}

// open requests a path below an exposure.
func (s *suite) open(at driver.Exposure, path string) (status int, text string, err error) {
	u, err := url.Parse(at.URL)
	if err != nil {
		return 0, "", err
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	req, err := http.NewRequestWithContext(s.ctx(), http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, "", err
	}
	if at.Token != "" {
		req.Header.Set(at.Header, at.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(body), err
}

// reaches waits until a URL leads to the program that answers with the text and the path.
func (s *suite) reaches(at driver.Exposure, text string) {
	s.Helper()
	s.eventually(func() error {
		status, body, err := s.open(at, "/a/b")
		if err == nil && (status != http.StatusOK || body != text+" /a/b") {
			err = fmt.Errorf("the URL answers %d %q, not %q", status, body, text+" /a/b")
		}
		return err
	})
}

// refused waits until a URL does not lead to the program.
func (s *suite) refused(at driver.Exposure, text, what string) {
	s.Helper()
	s.eventually(func() error {
		if _, body, err := s.open(at, "/a/b"); err == nil && strings.Contains(body, text) {
			return errors.New(what + " still leads to the program")
		}
		return nil
	})
}

func testExpose(s *suite) {
	one, two := s.create(s.spec()), s.create(s.spec())
	at, port := s.exposed(one, "one", time.Hour)
	other, _ := s.exposed(two, "two", time.Hour)
	s.reaches(at, "one")
	s.reaches(other, "two")
	again, err := s.exposer().Expose(s.ctx(), one.ID, port, time.Hour)
	s.check(err == nil, "Expose again: %v", err)
	s.reaches(again, "one")
}

func testExposeExpires(s *suite) {
	st := s.create(s.spec())
	at, port := s.exposed(st, "brief", 2*time.Second)
	s.check(!at.ExpiresAt.IsZero(), "a URL that may expire has no time of expiry")
	s.refused(at, "brief", "an expired URL")
	renewed, err := s.exposer().Expose(s.ctx(), st.ID, port, time.Hour)
	s.check(err == nil, "Expose after the expiry: %v", err)
	s.reaches(renewed, "brief")
}

func testExposeForged(s *suite) {
	at, _ := s.exposed(s.create(s.spec()), "secret", time.Hour)
	s.reaches(at, "secret")
	forged := at
	if at.Token != "" {
		forged.Token = strings.Repeat("x", len(at.Token))
		s.refused(forged, "secret", "a URL with another token")
		forged.Token = ""
		s.refused(forged, "secret", "a URL without its token")
		return
	}
	u, err := url.Parse(at.URL)
	s.check(err == nil, "parse URL: %v", err)
	switch {
	case len(u.Path) > 1:
		u.Path = u.Path[:len(u.Path)-4] + "0000"
	default:
		u.Host = "0000" + u.Host[4:]
	}
	forged.URL = u.String()
	s.refused(forged, "secret", "a URL that was changed")
}

func testExposeUnknown(s *suite) {
	st := s.create(s.spec())
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		_, err := s.exposer().Expose(s.ctx(), id, 8080, time.Hour)
		s.is(err, driver.ErrNotFound, "Expose of what does not exist")
	}
}

func testExposeDestroyed(s *suite) {
	st := s.create(s.spec())
	at, _ := s.exposed(st, "ended", time.Hour)
	s.reaches(at, "ended")
	s.destroy(st.ID)
	s.gone(st.ID)
	s.refused(at, "ended", "the URL of an instance that was destroyed")
}

func testExposeStopped(s *suite) {
	st := s.create(s.spec())
	s.stop(st.ID)
	s.phase(st.ID, driver.PhaseStopped)
	_, err := s.exposer().Expose(s.ctx(), st.ID, 8080, time.Hour)
	s.is(err, driver.ErrNotRunning, "Expose of a stopped instance")
	s.start(st.ID)
	at, _ := s.exposed(st, "again", time.Hour)
	s.reaches(at, "again")
}
