// Runs commands for HTTP clients. ../README.md has the interface and the reasons.
//
//	TREEWRAP_RUNTIME_DIR=/run/exec ./server [PORT]
//
// Promises: when a response has ended no process of its run is left, and that is treewrap's
// proof, not ours; a client that is gone, and the end of this server by whatever, end the run.
// Does not ask who the client is: that belongs in front of it.
package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const (
	rest        = 250 * time.Millisecond // for what is in the pipe at the end, should somebody hold it open
	largestBody = 1 << 20
	longest     = 24 * 3600.0 // seconds
	lost        = `{"event":"end","cause":"lost","exit_code":null,"signal":null,"status":null}`
)

var (
	aRun    = regexp.MustCompile(`^/exec/(exec-[0-9a-f]{16})(/signal)?$`)
	aSignal = regexp.MustCompile(`^[A-Za-z0-9+]{1,20}$`)
)

type refused struct {
	status int
	reason string
}

func (r refused) Error() string { return r.reason }

type server struct{ treewrap, directory string }

type request struct {
	Command   json.RawMessage
	Timeout   float64
	KillAfter float64 `json:"kill_after"`
	Signal    string
}

func readRequest(w http.ResponseWriter, r *http.Request) (request, error) {
	read := request{Timeout: 30, KillAfter: 5}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	if err != nil {
		return read, refused{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return read, refused{http.StatusBadRequest, "not the JSON that is wanted: " + err.Error()}
	}
	return read, nil
}

// words gives those of the command; none if it is neither a text nor an array of texts.
func (r request) words() (words []string) {
	var text *string
	var texts []*string // nil: a null
	if json.Unmarshal(r.Command, &text) == nil && text != nil {
		return []string{"sh", "-c", *text}
	}
	if json.Unmarshal(r.Command, &texts) != nil {
		return nil
	}
	for _, text := range texts {
		if text == nil {
			return nil
		}
		words = append(words, *text)
	}
	return words
}

// options gives treewrap's options, and the words of the command.
func (r request) options() ([]string, error) {
	words := r.words()
	if len(words) == 0 || strings.Contains(strings.Join(words, ""), "\x00") {
		return nil, refused{http.StatusBadRequest, "command must be a text or an array of texts"}
	}
	if r.Timeout < 0.001 || r.Timeout > longest || r.KillAfter < 0 || r.KillAfter > longest {
		return nil, refused{http.StatusBadRequest, fmt.Sprintf("timeout and kill_after must be seconds, up to %v", longest)}
	}
	return append([]string{"-t", fmt.Sprintf("%.0fms", r.Timeout*1000), "-k", fmt.Sprintf("%.0fms", r.KillAfter*1000), "--"}, words...), nil
}

// ask passes on what the run answers to the first of lines. If it has ended before it could (the
// process that would have answered may be killed; the other ends the run) the next is tried.
func (s server) ask(w http.ResponseWriter, run string, lines ...string) error {
	for _, line := range lines {
		connection, err := net.Dial("unix", s.directory+"/"+run+".sock")
		if err != nil {
			break
		}
		defer connection.Close()
		fmt.Fprintln(connection, line)
		answer, err := bufio.NewReader(connection).ReadBytes('\n')
		if err != nil {
			continue
		}
		var said struct{ Ok bool }
		status := http.StatusBadRequest
		if json.Unmarshal(answer, &said); said.Ok {
			status = http.StatusOK
		}
		reply(w, status, answer)
		return nil
	}
	return refused{http.StatusNotFound, "no such run"}
}

func reply(w http.ResponseWriter, status int, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(answer)
}

func (s server) signal(w http.ResponseWriter, r *http.Request, run string) error {
	read, err := readRequest(w, r)
	if err != nil {
		return err
	}
	// A line is a request: nothing may come in that would make it two.
	if !aSignal.MatchString(read.Signal) {
		return refused{http.StatusBadRequest, "signal must be a signal's name"}
	}
	return s.ask(w, run, "signal "+read.Signal+" tree")
}

type run struct {
	cmd              *exec.Cmd
	output, lifeline *os.File
	begun            chan bool     // whether it has
	ended            chan struct{} // closed when it has
	end              []byte        // the event, then
}

func (s server) start(name string, options []string) (*run, error) {
	var ends [6]*os.File
	for i := 0; i < len(ends); i += 2 {
		var err error
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return nil, err // what is open is the garbage collector's
		}
	}
	output, outputEnd, status, statusEnd, lifelineEnd, lifeline := ends[0], ends[1], ends[2], ends[3], ends[4], ends[5]
	cmd := exec.Command(s.treewrap, append([]string{"--id", name, "--status-fd", "3",
		"--watch-fd", "4", "--process-group", "new"}, options...)...)
	cmd.Stdout, cmd.Stderr = outputEnd, outputEnd
	cmd.ExtraFiles = []*os.File{statusEnd, lifelineEnd}
	err := cmd.Start()
	for _, end := range []*os.File{outputEnd, statusEnd, lifelineEnd} {
		end.Close()
	}
	if err != nil {
		return nil, err
	}
	r := &run{cmd, output, lifeline, make(chan bool, 1), make(chan struct{}), []byte(lost + "\n")}
	go r.follow(status)
	return r, nil
}

// follow reads what treewrap tells; at all times, for what finds no room is lost.
func (r *run) follow(status *os.File) {
	defer status.Close()
	lines := bufio.NewReader(status)
	first := true
	for {
		line, err := lines.ReadBytes('\n')
		if first {
			r.begun <- err == nil
			first = false
		}
		if err != nil {
			break
		}
		var told struct{ Event string }
		if json.Unmarshal(line, &told); told.Event == "end" {
			r.end = line
		}
	}
	r.cmd.Wait()
	close(r.ended)
}

// pieces reads output until its end, or until nobody wants it any more.
func pieces(output io.Reader, read chan<- []byte, unwanted <-chan struct{}) {
	defer close(read)
	for {
		piece := make([]byte, 32<<10)
		n, err := output.Read(piece)
		if err != nil {
			return
		}
		select {
		case read <- piece[:n]:
		case <-unwanted:
			return
		}
	}
}

func (s server) exec(w http.ResponseWriter, r *http.Request) error {
	read, err := readRequest(w, r)
	if err != nil {
		return err
	}
	options, err := read.options()
	if err != nil {
		return err
	}
	var number [8]byte
	if _, err := rand.Read(number[:]); err != nil {
		return err
	}
	name := fmt.Sprintf("exec-%x", number)
	run, err := s.start(name, options)
	if err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	defer run.output.Close()
	go func() {
		<-r.Context().Done() // the client is gone, or this function has returned
		run.lifeline.Close()
	}()
	if !<-run.begun {
		<-run.ended
		said, _ := io.ReadAll(run.output)
		return fmt.Errorf("cannot start: %s", bytes.TrimSpace(said))
	}
	run.stream(w, name)
	return nil
}

func (r *run) stream(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Exec-Id", name)
	w.(http.Flusher).Flush()
	read, unwanted := make(chan []byte), make(chan struct{})
	defer close(unwanted)
	go pieces(r.output, read, unwanted)
	for running, output := true, read; running; {
		select {
		case piece, more := <-output:
			if !more {
				output = nil // its end: nothing comes from there again
			}
			w.Write(piece)
			w.(http.Flusher).Flush()
		case <-r.ended:
			running = false
		}
	}
	// What the pipe holds still. So it does its end, unless a stranger has got hold of it.
	var all []byte
	for over, more := time.After(rest), true; more; {
		var piece []byte
		select {
		case piece, more = <-read:
			all = append(all, piece...)
		case <-over:
			more = false
		}
	}
	w.Write(all)
	w.Write(append([]byte("\n"), r.end...))
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	run := aRun.FindStringSubmatch(r.URL.Path)
	w.Header().Set("Connection", "close")
	switch {
	case r.Method == "POST" && r.URL.Path == "/exec":
		err = s.exec(w, r)
	case r.Method == "POST" && run != nil && run[2] != "":
		err = s.signal(w, r, run[1])
	case r.Method == "DELETE" && run != nil && run[2] == "":
		err = s.ask(w, run[1], "stop", "wait")
	default:
		err = refused{http.StatusNotFound, "no such thing here"}
	}
	if err != nil {
		status, known := http.StatusInternalServerError, refused{}
		if errors.As(err, &known) {
			status = known.status
		}
		answer, _ := json.Marshal(map[string]any{"ok": false, "error": err.Error()})
		reply(w, status, append(answer, '\n'))
	}
}

func main() {
	port, treewrap := "8080", os.Getenv("TREEWRAP")
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	if treewrap == "" {
		treewrap = "treewrap"
	}
	directory := os.Getenv("TREEWRAP_RUNTIME_DIR")
	if directory == "" {
		log.Fatal("server: TREEWRAP_RUNTIME_DIR is not set: the directory for control sockets")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, server{treewrap, directory}))
}
