import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { markFiles, restoreSnapshot, takeSnapshot } from '#core/execution/durable/files.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import {
  type ExecExit,
  type ExecRequest,
  execToEnd,
  type Sandbox,
  type SandboxSession,
  type SandboxSpec,
} from '#core/ports/sandbox.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { zip } from '#test/helpers/zip.ts';

const MB = 1024 * 1024;
const LIMITS = { memoryBytes: 512 * MB, cpuSeconds: 60, processes: 64, fileBytes: 64 * MB, diskBytes: 96 * MB };

export interface SandboxHarness {
  readonly sandbox: Sandbox;
  /** Storage from which {@link Sandbox.open} reads bundles and layers. */
  readonly blobs: Blobs;
}

/** The outcome of a command, with its output as text. */
export interface Ran {
  readonly out: string;
  readonly err: string;
  readonly exit: ExecExit;
}

export async function ran(session: SandboxSession, command: string, more: Partial<ExecRequest> = {}): Promise<Ran> {
  const { stdout, stderr, exit } = await execToEnd(session, { command, timeoutMs: 60_000, ...more });
  return { out: Buffer.from(stdout).toString(), err: Buffer.from(stderr).toString(), exit };
}

/** Runs a Python program given as text, and returns its outcome. */
export const python = (session: SandboxSession, program: string, more: Partial<ExecRequest> = {}): Promise<Ran> =>
  ran(session, 'python3 -', { ...more, stdin: Buffer.from(program) });

export const specOf = (more: Partial<SandboxSpec> = {}): SandboxSpec => ({
  env: {},
  egress: 'none',
  purpose: 'run',
  ...more,
  limits: { ...LIMITS, ...more.limits },
});

/** Python code that makes a system call without the C library, and prints `ok` or the name of the error. */
const SYSCALLS = `
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(name, x86, arm, *args):
    result = libc.syscall(x86 if platform.machine() == 'x86_64' else arm, *args)
    print(name, 'ok' if result >= 0 else errno.errorcode[ctypes.get_errno()])
`;

/** Requests a tunnel to each target from the proxy, verbatim, and each target over plain HTTP; prints the statuses. */
const throughProxy = (targets: readonly string[]) => `import os, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTPS_PROXY'])
def ask(text):
    s = socket.create_connection((proxy.hostname, proxy.port), 10)
    s.sendall(text.encode())
    return s.recv(100).decode().split(' ')[1:2]
for target in ${JSON.stringify(targets)}:
    print(target, *ask(f'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'), *ask(f'GET http://{target}/ HTTP/1.1\\r\\nHost: {target}\\r\\nConnection: close\\r\\n\\r\\n'))
`;

const SHOW = `import json, os, signal, sys
print(json.dumps({'arguments': sys.argv, 'input': sys.stdin.read(), 'environment': sorted(os.environ.items()),
  'executable': sys.executable, 'folder': os.getcwd(), 'session': os.getsid(0) == os.getpid(), 'pipe': str(signal.getsignal(13))}))
sys.exit(3)
`;
/** JSON in single quotes with every character sequence that a shell might interpret. */
const INPUT = String.raw`{"it'\''s": "$HOME '\'''\''  %s %% \\ \n \"*\" é"}`;

/** Python code that finds the runner, where it is not in a namespace of its own: the parent of the launcher. */
export const FIND_RUNNER = `import os
def stat_of(pid): return open(f'/proc/{pid}/stat').read().rsplit(')', 1)
runner = os.getpid()
while True:
    name, rest = stat_of(runner)
    runner = int(rest.split()[1])
    if 'platform-sandbo' in name: break
`;

export interface SandboxKind {
  /** Whether the sandbox is a whole unprivileged container, which can neither mount nor create a network. */
  readonly isContainer?: boolean;
  /**
   * Whether it is the environment of a Lambda function: a container whose process 1 belongs to the host, and which has
   * one session at a time and no snapshots. Tests run several in one network.
   */
  readonly isFunction?: boolean;
}

/** Rules for every adapter of {@link Sandbox}: its features, and its protection against attackers. */
export function sandboxConformance(
  setUp: () => Promise<SandboxHarness>,
  { isFunction, isContainer = isFunction }: SandboxKind = {},
): void {
  let harness: SandboxHarness;
  const sessions: SandboxSession[] = [];

  const open = async (more: Partial<SandboxSpec> = {}): Promise<SandboxSession> => {
    const session = await harness.sandbox.open(specOf(more));
    sessions.push(session);
    return session;
  };
  /** Runs one command in its own session. */
  const once = async (command: string, more: Partial<SandboxSpec> = {}, request: Partial<ExecRequest> = {}) => {
    const session = await open(more);
    try {
      return await ran(session, command, request);
    } finally {
      await session.close();
    }
  };
  const oncePython = async (program: string, more: Partial<SandboxSpec> = {}, request: Partial<ExecRequest> = {}) =>
    once('python3 -', more, { ...request, stdin: Buffer.from(program) });

  beforeAll(async () => {
    harness = await setUp();
    const files = {
      'main.py': 'import json, sys\nprint(json.dumps({"got": json.load(sys.stdin)}))\n',
      'bin/tool.sh': '#!/bin/sh\necho tool $1\n',
    };
    const entries = Object.entries(files).map(([name, content]) => ({
      name,
      content,
      mode: name.endsWith('.sh') ? 0o100755 : 0o100644,
    }));
    await harness.blobs.put('bundles/conformance.zip', zip(entries));
    await harness.blobs.put(
      'layers/conformance.tar.gz',
      tarOf({
        'python/greeting.py': 'text = "hello from python"\n',
        'python/bin/greet': '#!/usr/bin/env python3\nimport greeting\nprint(greeting.text)\n',
        'node_modules/greeting/package.json': '{"name":"greeting","main":"index.js"}',
        'node_modules/greeting/index.js': 'module.exports = { text: "hello from node" };\n',
      }),
    );
    await harness.blobs.put(
      'layers/own-sdk.tar.gz',
      tarOf({
        'python/agent_platform.py': 'AgentClient = "own"\n',
        'node_modules/agent-platform-sdk/package.json': '{"name":"agent-platform-sdk","main":"index.js"}',
        'node_modules/agent-platform-sdk/index.js': 'exports.AgentClient = "own";\n',
      }),
    );
  });

  afterEach(async () => {
    await Promise.all(sessions.splice(0).map((session) => session.close()));
  });
  afterAll(() => harness?.sandbox.close());

  const bundle = 'bundles/conformance.zip';
  const layer = 'layers/conformance.tar.gz';

  describe('commands', () => {
    test('return their output and exit status', async () => {
      const session = await open({ bundle });
      const { out, err, exit } = await ran(session, 'python3 main.py; echo oh >&2; exit 3', {
        stdin: Buffer.from('{"a": 1}'),
      });
      expect({ out, err, exit }).toEqual({
        out: '{"got": {"a": 1}}\n',
        err: 'oh\n',
        exit: { reason: 'exited', exitCode: 3, durationMs: expect.any(Number) },
      });
    });

    test('that end all they have started leave nothing running, not even what left their session', async () => {
      const session = await open();
      const ticking = (seconds: number) =>
        `trap '' TERM HUP; (setsid setsid sh -c 'while :; do date +%s%N > ~/next${seconds} && mv ~/next${seconds} ~/tick${seconds}; sleep 0.01; done' > /dev/null 2>&1 &); until [ -s ~/tick${seconds} ]; do sleep 0.01; done`;
      await ran(session, ticking(1));
      await ran(session, 'first=$(cat ~/tick1); until [ "$(cat ~/tick1)" != "$first" ]; do sleep 0.01; done');
      expect((await ran(session, `${ticking(2)}; exit 4`, { endsAll: true })).exit.exitCode).toBe(4);
      const [first, second] = (await ran(session, 'cat ~/tick2; sleep 0.3; cat ~/tick2')).out.trim().split('\n');
      expect(first).toBe(second);
    });

    test('stream their output while they run, the exit last', async () => {
      const session = await open();
      const types: string[] = [];
      for await (const event of session.exec({
        command: 'echo first; until [ -e go ]; do sleep 0.01; done; echo second >&2',
        timeoutMs: 20_000,
      })) {
        // The command waits for this file, which is written only if the first line arrives before the end.
        if (types.length === 0) await session.writeFile('go', new Uint8Array());
        types.push(event.type);
      }
      expect(types).toEqual(['stdout', 'stderr', 'exit']);
    });

    test('end with 128 and the number of the signal that killed them', async () => {
      const { exit } = await once('kill -SEGV $$');
      expect(exit).toMatchObject({ reason: 'exited', exitCode: 139 });
    });

    test('of an interpreter start as a shell would start them', async () => {
      const session = await open({ env: { NAME: 'a "value"' } });
      await session.writeFile('show.py', Buffer.from(SHOW));
      const direct = await ran(session, 'python3 show.py a-b ./c', { stdin: Buffer.from('in') });
      const byShell = await ran(session, "python3 show.py 'a-b' ./c", { stdin: Buffer.from('in') });
      expect(direct).toMatchObject({ out: byShell.out, err: '', exit: { exitCode: 3 } });
      expect(JSON.parse(direct.out)).toMatchObject({ arguments: ['show.py', 'a-b', './c'], input: 'in' });
      expect(await ran(session, 'python3 absent.py')).toMatchObject({ exit: { exitCode: 2 } });
      const without = await ran(session, 'node show.py', { cwd: '/tmp' });
      expect(without.err).toContain('show.py');
    });

    test('without anything for a shell in them do what a shell would do', async () => {
      const session = await open({ env: { NAME: 'a "value"', PLATFORM_TOOL_INPUT: 'old' } });
      await session.writeFile('show.py', Buffer.from(SHOW));
      await session.writeFile('plain', Buffer.from('echo "$0 $1 $NAME"; cat'));
      await session.writeFile('named', Buffer.from('#!/bin/cat\nsay\n'));
      await ran(session, 'chmod +x ./plain named');
      // Tools of loops use the same form.
      const save = (file: string): string =>
        `export PLATFORM_TOOL_INPUT="${file}"; printf %s '${INPUT}' > "${file}" || exit; exec < /dev/null\n`;
      const files = ['/tmp/__tool_input.json', '$TMPDIR/__tool_input.1.json', '/absent/input', '/tmp'];
      const commands = [
        ...['env', 'true', 'false', 'true --help', 'test a', 'pwd -P', 'type true', 'kill 0x', 'show.py', 'absent'],
        ...['cat absent', './plain a b', './named', './absent', '/tmp'],
        ...files.map((file) => `${save(file)}cat ${file.replace('$TMPDIR', '/tmp')}`),
        ...files.map((file) => `${save(file)}python3 show.py`),
        // Tools of durable loops say which call they are.
        ...['env', `${save(files[1]!)}env`, 'exit 3'].map(
          (command) => `export PLATFORM_TOOL_CALL_ID=r-1:2.3\n${command}`,
        ),
      ];
      const comparable = ({ out, err, exit }: Ran) => ({ out: out.split('\n').sort(), err, status: exit.exitCode });
      for (const command of commands) {
        const stdin = Buffer.from('in');
        const direct = await ran(session, command, { stdin });
        // A trailing space makes the shell run the command.
        const byShell = await ran(session, `${command} `, { stdin });
        expect(comparable(direct), command).toEqual(comparable(byShell));
      }
    });

    test('start in the bundle, or in the requested folder', async () => {
      const session = await open({ bundle });
      expect((await ran(session, 'pwd; echo $PWD')).out).toBe('/home/user/agent\n/home/user/agent\n');
      expect((await ran(session, 'pwd', { cwd: '/tmp' })).out).toBe('/tmp\n');
      expect((await ran(session, 'pwd', { cwd: '/nowhere' })).exit.exitCode).not.toBe(0);
      expect((await once('pwd')).out).toBe('/home/user\n');
    });

    test('see the bundle with its file modes, and the layer', async () => {
      const session = await open({ bundle, layer });
      expect((await ran(session, 'bin/tool.sh 1')).out).toBe('tool 1\n');
      expect((await ran(session, 'greet; python3 -c "import greeting; print(greeting.text)"')).out).toBe(
        'hello from python\nhello from python\n',
      );
      const node = `cd /tmp
        node -p 'require("greeting").text'
        node --input-type=module -e 'import g from "greeting"; console.log(g.text)'`;
      expect((await ran(session, node)).out).toBe('hello from node\nhello from node\n');
    });

    test('get no layer but the one that was installed', async () => {
      const layer = 'layers/hashed.tar.gz';
      const archive = tarOf({ 'python/greeting.py': 'text = "hashed"\n' });
      await harness.blobs.put(layer, archive);
      const layerSha256 = createHash('sha256').update(archive).digest('hex');
      const greeting = 'python3 -c "import greeting; print(greeting.text)"';
      expect((await once(greeting, { layer, layerSha256 })).out).toBe('hashed\n');
      const other = { layer: 'layers/conformance.tar.gz', layerSha256 };
      await expect(open(other)).rejects.toMatchObject({
        code: 'SANDBOX_LAYER',
        message: expect.stringContaining('changed since they were installed'),
      });
    });

    test('find what a build wrote over the files of the bundle, each run for itself', async () => {
      const built = 'layers/built.tar.gz';
      await harness.blobs.put(built, tarOf({ 'agent/main.py': 'print("built")\n', 'agent/dist/made': 'made\n' }));
      const command = 'python3 main.py && cat dist/made && echo more >> dist/made && echo new > dist/new && cat dist/*';
      const expected = 'built\nmade\nmade\nmore\nnew\n';
      expect((await once(command, { bundle, layer: built })).out).toBe(expected);
      expect((await once(command, { bundle, layer: built })).out).toBe(expected);
      expect((await once('ls dist', { bundle, layer })).exit.exitCode).not.toBe(0);
    });

    test("import the platform's packages from any folder, unless the agent brings its own", async () => {
      const imports = `cd /tmp
        python3 -c 'import agent_platform; print(agent_platform.AgentClient)'
        node -p 'require("agent-platform-sdk").AgentClient'
        node --input-type=module -e 'import { AgentClient } from "agent-platform-sdk"; console.log(AgentClient)'`;
      const inNode = '[class AgentClient]\n';
      const ours = `<class 'agent_platform.agent_client.AgentClient'>\n${inNode}${inNode}`;
      for (const spec of [{}, { bundle }, { bundle, layer }]) expect((await once(imports, spec)).out).toBe(ours);
      expect((await once(imports, { layer: 'layers/own-sdk.tar.gz' })).out).toBe('own\nown\nown\n');
    });

    test("import nothing of the host's packages", async () => {
      const listed = `import pkgutil, sysconfig
standard = (sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib'))
def is_added(path): return not path.startswith(standard) or 'site-packages' in path or 'dist-packages' in path
print(sorted(m.name for m in pkgutil.iter_modules() if is_added(m.module_finder.path)))
`;
      const pythons =
        'for p in python3 $(ls /usr/bin/python3 /usr/bin/python3.* /usr/local/bin/python3 2>/dev/null | grep -v config); do';
      for (const spec of [{ layer }, { purpose: 'install', egress: 'open' }] as const) {
        const session = await open(spec);
        await session.writeFile('/tmp/listed/list.py', Buffer.from(listed));
        const { out } = await ran(session, `${pythons} $p /tmp/listed/list.py; done`);
        const own = ['agent_platform', ...('layer' in spec ? ['greeting'] : []), 'list', 'pip'];
        const lines = new Set(out.trim().split('\n'));
        expect([...lines].map((line) => JSON.parse(line.replaceAll("'", '"')))).toEqual([own]);
      }
      const inNode = `const { readdirSync } = require('fs');
        for (const folder of ['/usr/lib/node_modules', '/usr/local/lib/node_modules', '/usr/share/nodejs', '/usr/lib/nodejs']) {
          let names = [];
          try { names = readdirSync(folder); } catch {}
          for (const name of names) {
            if (require('module').isBuiltin(name)) continue;
            try { console.log(require.resolve(name)); } catch {}
          }
        }`;
      expect((await once('node -', { layer }, { stdin: Buffer.from(inNode), cwd: '/tmp' })).out).toBe('');
    });

    test('find the interpreters that the status names', async () => {
      const { interpreters } = await harness.sandbox.status();
      expect(interpreters.node).toBeDefined();
      const { out } = await once(
        'node --version; python --version; python3 --version; bash -c "echo bash"; sh -c "echo sh"',
      );
      const pythonLine = interpreters.python ? `Python ${interpreters.python}\n` : '';
      expect(out).toBe(`v${interpreters.node}\n${pythonLine}${pythonLine}bash\nsh\n`);
    });

    test('input arrives as it was given, whatever its size and bytes', async () => {
      const inputs = ['{"a": "ä"}', 'a\0b', Buffer.from([255, 10, 0, 254]), 'x'.repeat(4096), 'ä'.repeat(2049)].map(
        (input) => Buffer.from(input),
      );
      for (const stdin of inputs) {
        expect((await once('od -An -v -tx1 | tr -d " \\n"', {}, { stdin })).out).toBe(stdin.toString('hex'));
      }
    });

    test('may leave 5 MB of input unread', async () => {
      const stdin = Buffer.alloc(5 * MB, 'x');
      expect((await once('exit 4', {}, { stdin })).exit).toMatchObject({ reason: 'exited', exitCode: 4 });
      expect((await once('head -c 3', {}, { stdin })).out).toBe('xxx');
      expect((await once('exec <&-; echo closed', {}, { stdin })).out).toBe('closed\n');
      const never = await once('sleep 100', {}, { stdin, timeoutMs: 300 });
      expect(never.exit.reason).toBe('timeout');
    });

    test('read 5 MB of input and return it unchanged', async () => {
      const stdin = Buffer.from(Uint8Array.from({ length: 5 * MB }, (_, index) => (index * 7) % 251));
      const session = await open();
      const { stdout } = await execToEnd(session, { command: 'cat', stdin, timeoutMs: 20_000 });
      expect(Buffer.from(stdout).equals(stdin)).toBe(true);
    });

    test('may print any amount to stderr, of which the beginning and the end are kept', async () => {
      const { out, err, exit } = await once(
        'echo first >&2; yes "a line of 20 bytes." | head -n 1000000 >&2; echo last >&2; echo out',
      );
      expect([out, exit.reason, exit.exitCode]).toEqual(['out\n', 'exited', 0]);
      const [, leftOut] = /\n\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n/.exec(err)!;
      const kept = err.replace(/\n\[\.\.\. .* \.\.\.\]\n/, '');
      expect(kept.length + Number(leftOut)).toBe('first\nlast\n'.length + 20_000_000);
      expect(kept.length).toBeGreaterThan(MB);
      expect(kept.length).toBeLessThan(1.2 * MB);
      // Lines must not be split, because a secret in a split line could not be masked.
      expect(new Set(kept.split('\n'))).toEqual(new Set(['first', 'a line of 20 bytes.', 'last', '']));
    });

    test('print no line to stderr that is cut in two at the end of the beginning', async () => {
      // 8 bytes of the first megabyte remain when the long line arrives.
      const { err } = await once(
        'yes 0123456 | head -c 1048568 >&2; sleep 0.3; echo the line with a secret >&2; yes 0123456 | head -c 200000 >&2',
      );
      const lines = new Set(err.split('\n').filter((line) => !line.includes('left out')));
      expect([...lines].toSorted()).toEqual(['', '0123456', 'the line with a secret']);
    });

    test('keep the end of stderr also at their deadline', async () => {
      const command = 'yes "a line" | head -c 3000000 >&2; echo last >&2; sleep 100';
      const { err, exit } = await once(command, {}, { timeoutMs: 4000 });
      expect(exit.reason).toBe('timeout');
      expect(err).toMatch(/last\n$/);
    });

    // Node makes its output pipes non-blocking, so direct writes of a program could fail with EAGAIN.
    test.each([1, 2])('write 3 MB from Node to descriptor %i, with and without its streams', async (descriptor) => {
      const program = `console.log('out'); console.error('err');
        const data = Buffer.alloc(3e6, 'x');
        for (let at = 0; at < data.length; ) at += require('fs').writeSync(${descriptor}, data, at);
        process.${descriptor === 1 ? 'stdout' : 'stderr'}.write('y'.repeat(3e6));
        process.exit(3);`;
      const { out, err, exit } = await once('node -', {}, { stdin: Buffer.from(program) });
      expect(exit).toMatchObject({ reason: 'exited', exitCode: 3 });
      const [big, small] = descriptor === 1 ? [out, err] : [err, out];
      expect(small).toMatch(/^(out|err)\n$/);
      if (descriptor === 1) expect(big.length).toBe(4 + 6e6);
      else expect(big).toMatch(/^err\nx+\n\[\.\.\. \d+ bytes left out \.\.\.\]\ny+$/);
    });

    test('write to /dev/stdout, /dev/stderr and /dev/null, read from /dev/stdin', async () => {
      const { out, err } = await once(
        'cat /dev/stdin > /dev/stdout; echo e > /dev/stderr; echo n > /dev/null',
        {},
        { stdin: Buffer.from('o\n') },
      );
      expect({ out, err }).toEqual({ out: 'o\n', err: 'e\n' });
    });

    test('of one session run at once and share their files', async () => {
      const session = await open();
      const wait = 'until [ -e there ]; do sleep 0.01; done; cat there';
      const [waited] = await Promise.all([ran(session, wait), ran(session, 'echo hi > part; mv part there')]);
      expect(waited.out).toBe('hi\n');
    });

    test('whose reader rests hold up no other command, and lose nothing', async () => {
      const session = await open();
      // Some of the commands end while their output is still in transit.
      for (const printed of [1_200_000, 1_300_000, 1_350_000, 1_400_000, 32_000_000]) {
        const command = `head -c ${printed} /dev/zero`;
        let bytes = 0;
        for await (const event of session.exec({ command, timeoutMs: 60_000, maxOutputBytes: 2 * printed })) {
          if (event.type !== 'stdout') continue;
          if (bytes === 0) {
            await ran(session, 'sleep 0.2');
            expect((await ran(session, 'head -c 2000000 /dev/zero; echo other')).out).toHaveLength(2_000_006);
          }
          bytes += event.data.byteLength;
        }
        expect(bytes).toBe(printed);
      }
    });

    test('end without waiting for their background processes', async () => {
      const session = await open();
      const started = await ran(session, 'sleep 1000 & echo $! > pid');
      expect(started.exit.reason).toBe('exited');
      expect((await ran(session, 'kill -0 $(cat pid) && echo alive')).out).toBe('alive\n');
    });

    test('may have background processes that print after their end', async () => {
      const session = await open();
      await ran(session, '(until [ -e go ]; do sleep 0.01; done; echo late && touch fine) &');
      await session.writeFile('go', new Uint8Array());
      expect((await ran(session, 'until [ -e fine ]; do sleep 0.01; done; echo yes')).out).toBe('yes\n');
    });
  });

  describe('the end of a command', () => {
    test('comes at the deadline, with SIGTERM first', async () => {
      const { out, exit } = await once(
        'trap "echo bye; exit 9" TERM; while :; do sleep 0.05; done',
        {},
        // This timeout lets the shell start on a busy machine.
        { timeoutMs: 2000 },
      );
      expect(exit.reason).toBe('timeout');
      expect(out).toBe('bye\n');
    });

    test('comes with SIGKILL for processes that ignore every other signal, after SIGTERM', async () => {
      const { out, exit } = await oncePython(
        `import os, signal, time
for s in range(1, 32):
  if s not in (9, 15, 17, 19): signal.signal(s, signal.SIG_IGN)
signal.signal(15, lambda *_: os.write(1, b'asked\\n'))
while 1: time.sleep(1)`,
        {},
        // This timeout lets Python start on a busy machine.
        { timeoutMs: 3000 },
      );
      expect(exit).toMatchObject({ reason: 'timeout', exitCode: 137 });
      expect(out).toBe('asked\n');
    });

    test('also ends double-forked daemons', async () => {
      const session = await open();
      const daemon = `trap "" TERM; (setsid setsid sh -c 'trap "" TERM; sleep 777' &) ; sleep 776`;
      expect((await ran(session, daemon, { timeoutMs: 500 })).exit.reason).toBe('timeout');
      expect((await ran(session, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "')).out).not.toMatch(/sleep 77/);
    });

    test('spares what other commands of the session have started', async () => {
      const session = await open();
      const daemon = (name: string) =>
        `(setsid setsid sh -c 'echo $$ > ${name}; exec sleep 600' > /dev/null 2>&1 &); until [ -s ${name} ]; do sleep 0.01; done`;
      const alive = async () =>
        (await ran(session, 'for name in first second third; do kill -0 $(cat $name) 2> /dev/null && echo $name; done'))
          .out;
      /** Starts a command that runs until it is stopped. */
      const begin = async (command: string) => {
        const controller = new AbortController();
        const events = session.exec({
          command: `${command}; echo on; sleep 600`,
          timeoutMs: 60_000,
          signal: controller.signal,
        });
        const running = events[Symbol.asyncIterator]();
        expect((await running.next()).value).toMatchObject({ type: 'stdout' });
        return async () => {
          controller.abort();
          while (!(await running.next()).done);
        };
      };
      const stopFirst = await begin(daemon('first'));
      await ran(session, daemon('second'));
      const stopThird = await begin(daemon('third'));
      expect(await alive()).toBe('first\nsecond\nthird\n');
      // On a remote host, the end of the command may still be in transit.
      await stopThird();
      await expect.poll(alive).toBe('first\nsecond\n');
      await stopFirst();
      await expect.poll(alive).toBe('second\n');
    });

    test('comes at once when it is aborted', async () => {
      const session = await open();
      const controller = new AbortController();
      const running = session.exec({ command: 'echo on; sleep 100', timeoutMs: 60_000, signal: controller.signal });
      let exit: ExecExit | undefined;
      for await (const event of running) {
        if (event.type === 'exit') exit = event.exit;
        else controller.abort();
      }
      expect(exit).toMatchObject({ reason: 'aborted', exitCode: 137 });
      const before = await ran(session, 'echo on', { signal: controller.signal });
      expect(before).toMatchObject({ out: '', exit: { reason: 'aborted' } });
    });

    test('comes when the reader stops reading', async () => {
      const session = await open();
      for await (const _ of session.exec({ command: 'echo on; sleep 778', timeoutMs: 60_000 })) break;
      const gone =
        'while cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -q "sleep 77[8]"; do sleep 0.01; done; echo gone';
      expect((await ran(session, gone)).out).toBe('gone\n');
    });

    test('comes at 10 MB of stdout', async () => {
      const { out, exit } = await once('head -c 100000000 /dev/zero; echo never >&2');
      expect(exit.reason).toBe('output_limit');
      expect(out.length).toBe(10 * MB);
      const small = await once('yes', {}, { maxOutputBytes: 1000 });
      expect(small.exit.reason).toBe('output_limit');
      expect(small.out.length).toBe(1000);
    });

    test('is reported when the session is closed during the command or was closed before', async () => {
      const session = await open();
      const running = ran(session, 'sleep 100');
      await ran(session, 'true');
      await session.close();
      await session.close();
      expect((await running).exit).toMatchObject({ reason: 'sandbox_lost', exitCode: 137 });
      expect((await ran(session, 'true')).exit.reason).toBe('sandbox_lost');
      await expect(session.writeFile('x', new Uint8Array())).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
    });
  });

  describe('files', () => {
    test('are written, read and listed', async () => {
      const session = await open();
      const content = Buffer.alloc(3 * MB, 'abc');
      await session.writeFile('/tmp/uploads/a/b.bin', content);
      await session.writeFile(
        'notes.txt',
        (async function* () {
          yield Buffer.from('one ');
          yield Buffer.from('two');
        })(),
      );
      await session.writeFile('empty', new Uint8Array());
      expect((await bytesOf(session, '/tmp/uploads/a/b.bin')).equals(content)).toBe(true);
      expect((await bytesOf(session, 'empty')).byteLength).toBe(0);
      expect((await ran(session, 'cat notes.txt; stat -c "%U" /tmp/uploads/a/b.bin')).out).toBe('one twouser\n');
      await session.writeFile('notes.txt', Buffer.from('3'));
      expect(await session.listFiles('/home/user')).toEqual([
        { path: 'empty', isFolder: false, sizeBytes: 0 },
        { path: 'notes.txt', isFolder: false, sizeBytes: 1 },
      ]);
      expect(await session.listFiles('/tmp/uploads', { recursive: true })).toEqual([
        { path: 'a', isFolder: true, sizeBytes: 0 },
        { path: 'a/b.bin', isFolder: false, sizeBytes: 3 * MB },
      ]);
    });

    test('that cannot be read, written or listed are named in the error', async () => {
      const session = await open({ bundle });
      const fails = (work: Promise<unknown>, message: RegExp) =>
        expect(work).rejects.toMatchObject({ code: 'SANDBOX_FILE', message: expect.stringMatching(message) });
      await fails(session.readFile('nothing'), /cannot read nothing: No such file/);
      await fails(session.readFile('/tmp'), /cannot read \/tmp: Is a directory/);
      await fails(session.listFiles('nothing'), /cannot list nothing: No such file/);
      await fails(session.writeFile('/usr/x', Buffer.from('x')), /cannot write \/usr\/x: /);
      await ran(session, 'mkfifo /home/user/pipe', { cwd: '/home/user' });
      await fails(session.readFile('pipe'), /cannot read pipe: /);
      await fails(session.writeFile('pipe', Buffer.from('x')), /cannot write pipe: /);
    });

    test('whose source fails make the write fail', async () => {
      const session = await open();
      const broken = (async function* () {
        yield Buffer.from('half');
        throw new Error('the upload broke off');
      })();
      await expect(session.writeFile('half', broken)).rejects.toThrow('the upload broke off');
    });

    test('follow planted links only inside the sandbox', async () => {
      const session = await open();
      await ran(
        session,
        `ln -s /etc/shadow shadow; ln -s / all; ln -s /proc/${isFunction ? '$PPID' : '1'}/root root; ln -s ../../../../etc/passwd up`,
      );
      await expect(session.readFile('shadow')).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
      expect((await bytesOf(session, 'up')).toString()).toContain('user:x:1000:1000');
      expect((await bytesOf(session, 'up')).toString()).not.toContain('root:');
      await expect(session.listFiles('root')).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
      await expect(session.writeFile('all/etc/hosts', Buffer.from('x'))).rejects.toMatchObject({
        code: 'SANDBOX_FILE',
      });
      const listed = await session.listFiles('.', { recursive: true });
      expect(listed.map(({ path, isFolder }) => [path, isFolder])).toEqual([
        ['all', false],
        ['root', false],
        ['shadow', false],
        ['up', false],
      ]);
    });

    test('are new in every session', async () => {
      const first = await open();
      await ran(first, 'echo secret | tee ~/mine /tmp/mine /dev/shm/mine');
      const second = await open();
      await first.close();
      expect((await ran(second, 'ls -A ~ /tmp/ /dev/shm/')).out).not.toContain('mine');
    });

    test('of a missing bundle make opening fail', async () => {
      await expect(open({ bundle: 'bundles/missing.zip' })).rejects.toThrow('bundles/missing.zip');
    });

    testWhere(!isFunction)('go on in another session by a snapshot', async () => {
      const options = { maxBytes: 64 * MB };
      const session = await open({ bundle });
      const marked = await markFiles(session);
      if (!('mark' in marked)) throw new Error(marked.problem);
      expect(await takeSnapshot(session, { ...options, since: marked.mark })).toEqual({ unchanged: true });
      const work = `mkdir -p ~/a /tmp/tool_output; head -c 12000000 /dev/urandom > ~/a/b; chmod 500 ~/a/b; ln ~/a/b ~/c
        ln -s /usr/bin/env ~/d; touch -d @1.5 ~/a; echo 1 > /tmp/tool_output/1; echo 2 > main.py; rm bin/tool.sh; mkfifo ~/e`;
      expect((await ran(session, work)).err).toBe('');
      const show = `cd ~; md5sum a/b main.py; stat -c '%n %a %h %y' a a/b c; readlink d; ls -A . agent/bin /tmp/tool_output; stat -c %y agent/main.py`;
      const snapshot = await takeSnapshot(session, { ...options, since: marked.mark });
      if (!('content' in snapshot)) throw new Error(JSON.stringify(snapshot));
      expect(await takeSnapshot(session, { ...options, since: snapshot.mark })).toEqual({ unchanged: true });
      const { out } = await ran(session, `rm ~/e; ${show}`);
      await session.close();
      const next = await open({ bundle });
      const restored = await restoreSnapshot(next, snapshot.content, options);
      if (!('mark' in restored)) throw new Error(restored.problem);
      expect((await ran(next, show)).out).toBe(out);
      expect(await takeSnapshot(next, { ...options, since: restored.mark })).toEqual({ unchanged: true });
      const content = Buffer.from(snapshot.content);
      content[content.length >> 1]! ^= 1;
      expect(await restoreSnapshot(next, content, options)).toMatchObject({
        problem: expect.stringContaining('is damaged'),
      });
    });
  });

  describe('the environment', () => {
    test('has the given variables and the standard ones', async () => {
      const { out } = await oncePython('import json, os; print(json.dumps(dict(os.environ)))', {
        env: { TOKEN: 'a=b c\nd', HOME: '/elsewhere', EMPTY: '' },
      });
      // The shell adds SHLVL and _.
      const { SHLVL: _, _: __, PYTHONPATH: ___, PATH, ...environment } = JSON.parse(out);
      expect(PATH.split(':')).toContain('/usr/bin');
      expect(environment).toEqual({
        TOKEN: 'a=b c\nd',
        EMPTY: '',
        HOME: '/home/user',
        USER: 'user',
        LANG: expect.any(String),
        SHELL: expect.any(String),
        TERM: expect.any(String),
        PWD: '/home/user',
        TMPDIR: '/tmp',
      });
    });

    test('runs as an ordinary user without capabilities', async () => {
      const { out } = await once('id -u; id -un; id -G; echo ~; grep -E "^(Cap|NoNewPrivs)" /proc/self/status');
      const zero = '0000000000000000';
      expect(out).toBe(
        `1000\nuser\n1000\n/home/user\nCapInh:\t${zero}\nCapPrm:\t${zero}\nCapEff:\t${zero}\nCapBnd:\t${zero}\nCapAmb:\t${zero}\nNoNewPrivs:\t1\n`,
      );
    });

    test('shows nothing of the host but its runtimes', async () => {
      const session = await open();
      const { out } = await ran(
        session,
        'ls -A /; ls -A /home; ls -A /root /var /run /srv /boot /sys /mnt /opt 2>/dev/null | cat',
      );
      // A container shows its image instead, which has the same runtimes and empty folders.
      if (!isContainer) expect(out).not.toMatch(/^(boot|sys|srv|mnt|opt|run|var|work|data)$/m);
      const reads =
        'cat /etc/shadow /root/.bashrc /root/.ssh/* /var/run/docker.sock /proc/kcore /proc/1/environ /proc/kmsg';
      expect((await ran(session, reads)).out).toBe('');
      expect((await ran(session, 'cat /etc/passwd')).out).not.toContain('root');
    });

    test('has only stdin, stdout and stderr open', async () => {
      const program = `import os
print(*[n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)])
for n in range(3, 1024):
    try: os.fstat(n); print('open', n)
    except OSError: pass
`;
      for (const purpose of ['run', 'install'] as const) {
        const session = await open({ purpose, egress: 'open' });
        for (const command of ['python3 /tmp/fds.py', 'cd /tmp; (python3 fds.py)']) {
          await session.writeFile('/tmp/fds.py', Buffer.from(program));
          expect((await ran(session, command, { cwd: '/tmp' })).out).toBe('0 1 2\n');
        }
        await session.close();
      }
    });

    test('has a path of its own in every cgroup', async () => {
      const { out } = await once('cat /proc/self/cgroup');
      if (!isContainer) expect(out).toMatch(/^(\d+:.*:\/\n)+$/);
    });

    test('shows only its own processes, with nothing of the platform in them', async () => {
      const { out } = await once(
        'ls /proc | grep -c "^[0-9]"; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr "\\0" "\\n"',
      );
      const [count, ...rest] = out.split('\n');
      expect(Number(count)).toBeLessThan(10);
      // In a container the runner's command lines are visible; they contain no user data.
      expect(rest.join('\n')).not.toMatch(isContainer ? /vitest|node_modules/ : /vitest|launcher|node_modules/);
    });

    // Containers of one machine share a user and its process limit; on AWS each task has its own machine.
    testWhere(!isContainer)('holds 20 sessions at once', async () => {
      const outs = await Promise.all(
        Array.from({ length: 20 }, (_, index) => once(`echo ${index} > me; cat me; ls ~ | wc -l`)),
      );
      expect(outs.map(({ out }) => out)).toEqual(Array.from({ length: 20 }, (_, index) => `${index}\n1\n`));
    });
  });

  describe('the environment of Python in a layer', () => {
    const layer = 'layers/venv.tar.gz';
    const wheel = zip([
      { name: 'brought.py', content: 'text = "brought along"\n' },
      { name: 'brought-1.0.dist-info/METADATA', content: 'Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n' },
      {
        name: 'brought-1.0.dist-info/WHEEL',
        content: 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
      },
      { name: 'brought-1.0.dist-info/RECORD', content: '' },
    ]);
    let version: string;
    beforeAll(async () => {
      const { interpreters } = await harness.sandbox.status();
      version = `python${/^\d+\.\d+/.exec(interpreters.python!)![0]}`;
      const packages = `venv/lib/${version}/site-packages`;
      await harness.blobs.put(
        layer,
        tarOf({
          [`${packages}/greeting.py`]:
            'import sys\ntext = f"hello from {__name__}"\nif __name__ == "__main__": print(text)\n',
          [`${packages}/json.py`]: 'raise SystemExit("a package has replaced a module of Python")\n',
          [`${packages}/more.pth`]: `/layer/${packages}/more\n`,
          [`${packages}/more/further.py`]: 'text = "further"\n',
          'venv/bin/greet': '#!/usr/bin/env python3\nimport greeting\nprint(greeting.text)\n',
        }),
      );
    });

    test('is found however Python is started', async () => {
      const session = await open({ layer });
      const code = `import greeting, further, json, agent_platform, os; print(greeting.text, further.text, 'site-packages' in greeting.__file__)`;
      await session.writeFile('look.py', Buffer.from(code));
      await session.writeFile(
        'child.py',
        Buffer.from(`import subprocess, sys\nsubprocess.run([sys.executable, '-I', 'look.py'], env={})`),
      );
      const real = '$(readlink -f $(command -v python3))';
      const ways = [
        ...['python3 look.py', 'python look.py', `${version} look.py`, 'python3 -I look.py', 'python3 -E -s look.py'],
        ...['env -i python3 look.py', 'env -i /layer/venv/bin/python3 -I look.py', `${real} -I look.py`],
        ...[`env -i ${real} look.py`, 'python3 child.py', 'env PYTHONPATH= python3 look.py'],
      ];
      for (const way of ways) {
        const { out, err } = await ran(session, way);
        expect({ way, out, err }).toEqual({ way, out: 'hello from greeting further True\n', err: '' });
      }
      expect((await ran(session, 'greet; env -i /layer/venv/bin/greet; python3 -m greeting')).out).toBe(
        'hello from greeting\nhello from greeting\nhello from __main__\n',
      );
    });

    test('looks like one to tools, and lets programs install into their home', { timeout: 120_000 }, async () => {
      const session = await open({ layer });
      const { out } = await python(
        session,
        'import sys, sysconfig; print(sys.prefix, sys.prefix != sys.base_prefix, sysconfig.get_path("purelib"))',
      );
      expect(out).toBe(`/layer/venv True /layer/venv/lib/${version}/site-packages\n`);
      await session.writeFile('brought-1.0-py3-none-any.whl', wheel);
      const install = 'python3 -m pip install -q --no-index ./brought-1.0-py3-none-any.whl';
      const { out: brought, err } = await ran(session, `${install}; python3 -c 'import brought; print(brought.text)'`);
      expect(brought, err).toBe('brought along\n');
    });

    test('that was made by another version of Python keeps what needs no compiler', async () => {
      const other = 'layers/other-venv.tar.gz';
      const path = `venv/lib/python3.${version === 'python3.10' ? 9 : 10}/site-packages/greeting.py`;
      await harness.blobs.put(other, tarOf({ [path]: 'text = "still here"\n' }));
      expect((await once('python3 -I -c "import greeting; print(greeting.text)"', { layer: other })).out).toBe(
        'still here\n',
      );
    });

    test('has the interpreter of the sandbox, whatever the installation left in its place', async () => {
      const planted = 'layers/planted-venv.tar.gz';
      await harness.blobs.put(
        planted,
        tarOf({
          [`venv/lib/${version}/site-packages/greeting.py`]: 'text = "hello"\n',
          'venv/pyvenv.cfg': 'home = /home/user/planted\n',
          'venv/bin/python3': '#!/bin/sh\necho planted\n',
          'venv/bin/python/folder': 'planted',
        }),
      );
      const { out } = await once('python -c "import greeting, sys; print(greeting.text, sys.prefix)"', {
        layer: planted,
      });
      expect(out).toBe('hello /layer/venv\n');
      const file = 'layers/file-venv.tar.gz';
      await harness.blobs.put(file, tarOf({ [`venv/lib/${version}/greeting.py`]: '', 'venv/bin': 'a file' }));
      await expect(open({ layer: file })).rejects.toMatchObject({ code: 'SANDBOX_LAYER' });
    });
  });

  describe('the working folder', () => {
    /** Prints every path, mode and content of the folder. */
    const show = "find . -printf '%P %y %m\\n' | sort; find . -type f -name '*.*' | sort | xargs cat";
    const fresh = async () => (await once(show, { bundle })).out;

    test('can be changed like any folder, for this run only', async () => {
      const before = await fresh();
      expect(before).toMatch(/^ d \d+\nbin d 755\nbin\/tool.sh f 755\nmain.py f 644\n/);
      const session = await open({ bundle });
      const changes = `set -e; echo '# more' >> main.py; mkdir -p storage/datasets; echo data > storage/datasets/1.json
        chmod 600 main.py; rm -r bin; mkdir bin; echo new > bin/new.txt; mv bin tools; cp main.py copy.py; ln -s main.py link
        ln main.py hard; touch -d @1000 main.py; stat -c '%Y %h %U' main.py; ls -A . tools; tail -n 1 hard link`;
      const { out, err } = await ran(session, changes);
      expect({ out, err }).toEqual({
        out: '1000 2 user\n.:\ncopy.py\nhard\nlink\nmain.py\nstorage\ntools\n\ntools:\nnew.txt\n==> hard <==\n# more\n\n==> link <==\n# more\n',
        err: '',
      });
      await session.writeFile('agent/storage/2.json', Buffer.from('from outside'));
      expect((await bytesOf(session, 'agent/storage/2.json')).toString()).toBe('from outside');
      // A later command of the session sees the changes, and no other session does.
      expect((await ran(session, 'cat storage/datasets/1.json tools/new.txt')).out).toBe('data\nnew\n');
      if (!isContainer) expect(await fresh()).toBe(before);
      await session.close();
      expect(await fresh()).toBe(before);
    });

    test('keeps no program from reading its own file while another one replaces it', async () => {
      const session = await open({ bundle });
      const { out } = await ran(
        session,
        `exec 3< main.py; echo new > main.py; cat main.py; rm main.py; cat <&3 | wc -l`,
      );
      expect(out).toMatch(/^new\n[0-9]+\n$/);
    });

    test('cannot be used to change the bundle, whatever is planted in it', async () => {
      const before = await fresh();
      // Device 0:0 and these attributes are the kernel's own marks in the folders of an overlay.
      const program = `import errno, os, stat
def attempt(what, *args):
    try: what(*args)
    except OSError as e: pass
for name in 'white', 'main.py', 'bin': attempt(os.mknod, name, 0o644 | stat.S_IFCHR, 0)
for prefix in 'user', 'trusted':
    for path in '.', 'bin', 'main.py':
        for name, value in ('opaque', b'y'), ('opaque', b'x'), ('redirect', b'/../../../etc'), ('metacopy', b''), ('origin', b'x'), ('whiteout', b'y'), ('impure', b'y'):
            attempt(os.setxattr, path, f'{prefix}.overlay.{name}', value)
            attempt(os.setxattr, path, f'{prefix}.overlay.overlay.{name}', value)
attempt(os.link, 'main.py', '/home/user/hard')
attempt(os.link, 'main.py', 'hard')
for path in '/home/user/hard', 'hard', 'main.py':
    attempt(lambda: open(path, 'r+b').write(b'print("changed")'))
for path in '..', '../../..', '/', '/etc', '/layer', '/proc/self/root', '/proc/1/root': attempt(os.symlink, path, 'out' + path.replace('/', '_'))
for path in 'out_etc/passwd', 'out_layer/new', 'out_/new', 'out_proc_1_root/new':
    attempt(lambda: open(path, 'w').write('x'))
for folder, folders, files in os.walk('/proc/self/fd'): pass
for name in 'changed', 'changing', '.bundle': attempt(lambda: print(os.listdir('/dev/pts/dev/' + name)))
attempt(os.chmod, 'bin/tool.sh', 0o777)
attempt(os.chmod, '.', 0)
attempt(os.chmod, '/.bundle/main.py', 0o777)
attempt(lambda: open('/.bundle/main.py', 'w').write('x'))
`;
      const session = await open({ bundle, layer });
      const { out, err } = await python(session, program);
      expect({ out, err }).toEqual({ out: '', err: '' });
      const passwd = await ran(session, 'chmod 755 /home/user/agent; grep -c . /etc/passwd; ls /layer/new /new', {
        cwd: '/',
      });
      expect(passwd.out).toBe('2\n');
      await session.close();
      expect(await fresh()).toBe(before);
    });

    test('cannot be filled past the limit of all files', async () => {
      const before = await fresh();
      if (isContainer) {
        const session = await open({ bundle });
        const filled = await ran(session, 'for i in 1 2 3 4; do head -c 40000000 /dev/zero > f$i; done; sleep 100');
        return expect(filled.exit.reason).toBe('memory_limit');
      }
      const diskBytes = 16 * MB;
      const session = await open({ bundle, limits: { ...LIMITS, diskBytes } });
      const fill =
        'for place in . .. /tmp; do for i in 1 2 3 4; do head -c 5000000 /dev/zero > $place/f$i || break; done; done; cat f* ../f* /tmp/f* | wc -c';
      const { out, err } = await ran(session, fill);
      // A copy of the bundle has space of its own, in whole pages.
      expect(Number(out)).toBeLessThanOrEqual(diskBytes + 64 * 1024);
      expect(Number(out)).toBeGreaterThan(diskBytes * 0.9);
      expect(err).toContain('No space left');
      // A file of the bundle that needs space to be changed cannot be, and stays readable.
      expect((await ran(session, 'echo more >> main.py || head -n 1 main.py')).out).toMatch(/^(import json, sys\n)?$/);
      await session.close();
      expect(await fresh()).toBe(before);
    });
  });

  describe('an attacker', () => {
    test('cannot change layer, runtimes or settings', async () => {
      const { out } = await once(
        `for f in /layer/python/greeting.py /layer/new /usr/bin/env /usr/new \\
          /etc/passwd /etc/new /bin/sh /new /dev/new /runtime/bin/node $(command -v python3) /home/new; do
          (echo x > $f) 2>/dev/null && echo wrote $f; rm -f $f 2>/dev/null && [ ! -e /layer/new ] && [ -e $f ] || true; done
        ls /layer/python`,
        { bundle, layer },
      );
      expect(out.replace('wrote /home/new\n', '')).toBe('bin\ngreeting.py\n');
    });

    test('cannot kill process 1 or processes of other sandboxes', async () => {
      const session = await open();
      expect((await ran(session, 'kill -9 1; kill -STOP 1; echo still')).out).toBe('still\n');
      const { exit } = await ran(session, 'kill -9 -1; sleep 100', { timeoutMs: 2000 });
      // In a container, process 1 belongs to the runner, and the supervisor of commands can be killed. Then all
      // commands end.
      expect(exit.reason).toBe(isContainer ? 'sandbox_lost' : 'timeout');
      expect((await once('echo others live')).out).toBe('others live\n');
    });

    testWhere(!isContainer)('cannot kill what watches it, whatever ended a moment before it', async () => {
      const session = await open();
      for (let round = 0; round < 50; round++) {
        await ran(session, 'echo $((1))');
        const { out, exit } = await ran(session, 'kill -9 -1; echo still');
        expect([exit.reason, out]).toEqual(['exited', 'still\n']);
      }
    });

    test('cannot trace or read process 1', async () => {
      const { out } =
        await oncePython(`${SYSCALLS}${isFunction ? FIND_RUNNER : 'runner = 1\n'}call('attach', 101, 117, 16, runner, 0, 0)
call('seize', 101, 117, 0x4206, runner, 0, 0)
class Vec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
call('readv', 310, 270, runner, ctypes.byref(Vec(ctypes.addressof(buffer), 8)), 1, ctypes.byref(Vec(0x400000, 8)), 1, 0)
for name in ('mem', 'environ', 'maps', 'fd', 'cwd', 'root', 'exe'):
    try: print(name, os.listdir(f'/proc/{runner}/fd') if name == 'fd' else os.readlink(f'/proc/{runner}/{name}') if name in ('cwd', 'root', 'exe') else open(f'/proc/{runner}/{name}').read(1))
    except OSError as e: print(name, 'refused')
`);
      expect(out).toBe(
        'attach EPERM\nseize EPERM\nreadv EPERM\nmem refused\nenviron refused\nmaps refused\nfd refused\ncwd refused\nroot refused\nexe refused\n',
      );
    });

    test('reaches no other sandbox and no host through descriptors that the platform has open', async () => {
      const other = await open();
      await other.writeFile('mine', Buffer.from('another run'));
      // Distinct limits prevent the reuse of a sandbox that was started ahead.
      const session = await open({ limits: { ...LIMITS, diskBytes: 95 * MB } });
      await ran(session, 'for n in $(seq 3 39); do ln -s /proc/self/fd/$n fd$n; done');
      for (let number = 3; number < 40; number++) {
        for (const path of [`fd${number}/home/user/mine`, `/proc/self/fd/${number}/../../etc/hostname`]) {
          await expect(session.readFile(path)).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
        }
      }
    });

    testWhere(!isFunction)('that opens many connections and says nothing leaves other runs theirs', async () => {
      const session = await open({ egress: 'open' });
      const silent = await python(
        session,
        `import os, socket, time
for _ in range(24):
    if os.fork() == 0:
        held = []
        while len(held) < 60:
            s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', 3128)); held.append(s)
        open(f'/tmp/held-{os.getpid()}', 'w').close()
        time.sleep(1000)
while len([n for n in os.listdir('/tmp') if n.startswith('held-')]) < 24: time.sleep(0.01)
print('held')
`,
      );
      expect(silent.out).toBe('held\n');
      expect((await ran(session, 'echo on')).out).toBe('on\n');
      const program = throughProxy(['127.0.0.1:80']);
      expect((await oncePython(program, { egress: 'open' })).out).toBe('127.0.0.1:80 403 403\n');
    });

    test('cannot mount, change root, make devices or namespaces', async () => {
      const { out } = await oncePython(`${SYSCALLS}
call('mount', 165, 40, b'none', b'/tmp', b'tmpfs', 0, None)
call('remount', 165, 40, b'none', b'/usr', None, 32 | 4096, None)
call('umount', 166, 39, b'/usr', 2)
call('pivot_root', 155, 41, b'/', b'/tmp')
call('chroot', 161, 51, b'/tmp')
call('mknod', 259, 33, -100, b'/tmp/mem', 0o20666, (1 << 8) | 1)
call('unshare', 272, 97, 0x10000000)
call('unshare net', 272, 97, 0x40000000)
call('clone', 56, 220, 0x10000000 | 17, 0, 0, 0, 0)
call('clone3', 435, 435, 0, 0)
call('setns', 308, 268, 0, 0)
call('open_tree', 428, 428, -100, b'/', 1)
call('fsopen', 430, 430, b'tmpfs', 0)
`);
      expect(out.split('\n').filter((line) => line && !/ (EPERM|ENOSYS)$/.test(line))).toEqual([]);
      expect((await once('unshare -Ur true')).exit.exitCode).not.toBe(0);
    });

    test('cannot use kernel interfaces that agents do not need', async () => {
      const { out } = await oncePython(`${SYSCALLS}
call('bpf', 321, 280, 0, 0, 0)
call('perf_event_open', 298, 241, 0, 0, 0, 0, 0)
call('userfaultfd', 323, 282, 0)
call('io_uring_setup', 425, 425, 1, 0)
call('keyctl', 250, 219, 0, -3, 0)
call('add_key', 248, 217, b'user', b'a', b'b', 1, -3)
call('request_key', 249, 218, b'user', b'a', 0, -3)
call('memfd_create', 319, 279, b'a', 0)
call('shmget', 29, 194, 0, 4096, 0o1600)
call('msgget', 68, 186, 0, 0o1600)
call('semget', 64, 190, 0, 1, 0o1600)
call('mq_open', 240, 180, b'a', 0o102, 0o600, 0)
call('vmsplice', 278, 75, -1, 0, 0, 0)
call('socketpair', 53, 199, 30, 1, 0, 0)
call('netlink sock_diag', 41, 198, 16, 3, 4)
call('syslog', 103, 116, 3, 0, 0)
call('reboot', 169, 142, 0, 0, 0, 0)
call('init_module', 175, 105, 0, 0, 0)
call('settimeofday', 164, 170, 0, 0)
import fcntl, socket
for family in (3, 17, 29, 38, 40, 44):
    try: print(family, socket.socket(family, socket.SOCK_STREAM))
    except OSError as e: print(family, errno.errorcode[e.errno])
try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('raw')
except OSError as e: print('raw', errno.errorcode[e.errno])
`);
      const harmless = / (EPERM|ENOSYS|EAFNOSUPPORT)$/;
      expect(out.split('\n').filter((line) => line && !harmless.test(line))).toEqual([]);
      expect(out).toMatch(/^raw (EPERM|EAFNOSUPPORT)$/m);
    });

    test('gains no privilege from setuid programs', async () => {
      // A container cannot mount with nosuid; there only no_new_privs protects.
      const mounts = isContainer ? 'true' : 'grep -vE "nosuid" /proc/self/mounts | grep -vE " /dev/[a-z]+ "';
      const { out } = await once(
        `cp /usr/bin/id /tmp/id && chmod 4755 /tmp/id && /tmp/id -u; ${mounts}; find / -xdev -perm -4000 -type f 2>/dev/null | head -3 | wc -l`,
      );
      expect(out).toMatch(/^1000\n\d\n$/);
      expect((await once('su -c id; sudo -n id; newgrp root; passwd -d root; true')).out).not.toContain('uid=0');
    });

    test('cannot write kernel settings', async () => {
      const ofProcess1 = isFunction ? '' : '/proc/1/oom_score_adj /proc/1/uid_map';
      const { out } = await once(
        `for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/overcommit_memory /proc/sys/net/ipv4/ip_forward \\
          /proc/sys/user/max_user_namespaces /proc/sysrq-trigger ${ofProcess1} /proc/self/uid_map; do
          (echo 1 > $f) 2>/dev/null && echo wrote $f; done; echo end`,
      );
      expect(out).toBe('end\n');
    });

    test('has no terminal and only harmless devices', async () => {
      const session = await open();
      const { out } = await python(
        session,
        `import fcntl, os, stat
try: print(os.open('/dev/tty', os.O_RDWR))
except OSError: print('no terminal')
for fd in (0, 1, 2):
    try: fcntl.ioctl(fd, 0x5412, b'x'); print('pushed')
    except OSError: print('refused')
master, slave = os.openpty()
try: fcntl.ioctl(slave, 0x5412, b'x'); print('pushed')
except OSError: print('refused')
devices = [n for n in os.listdir('/dev') if stat.S_ISBLK(os.lstat('/dev/' + n).st_mode) or stat.S_ISCHR(os.lstat('/dev/' + n).st_mode)]
print(*sorted(set(devices) - {'null', 'zero', 'full', 'random', 'urandom', 'tty'}))
`,
      );
      expect(out).toBe('no terminal\nrefused\nrefused\nrefused\nrefused\n\n');
    });

    test('cannot exhaust the processes of the host', async () => {
      const session = await open();
      const bomb = await ran(session, 'bomb() { bomb | bomb & }; bomb; while :; do sleep 0.1; done', {
        timeoutMs: 1500,
      });
      expect(bomb.exit.reason).toBe('timeout');
      expect((await ran(session, 'ls /proc | grep -c "^[0-9]"; echo alive')).out).toMatch(/^\d\n?\d?\nalive\n$/);
      const { out } = await python(
        session,
        `import os, time
n = 0
try:
    while True:
        if os.fork() == 0: time.sleep(100)
        n += 1
except OSError as e: print(n < 70, e.errno)
`,
      );
      expect(out).toBe('True 11\n');
    });

    describe('cannot use more memory than its limit', () => {
      const limits = { ...LIMITS, memoryBytes: 128 * MB };
      const stays = 'import time\nwhile True: time.sleep(1)\n';

      test('in one process', async () => {
        const { exit } = await oncePython(`a = []\nwhile True: a.append(bytearray(1 << 20))\n`, { limits });
        expect(exit).toMatchObject({ reason: 'memory_limit', exitCode: 137 });
      });

      test('in one process that did nothing for a long time before', async () => {
        const program = `import time\ntime.sleep(6)\na = []\nwhile True: a.append(bytearray(1 << 20))\n`;
        expect((await oncePython(program, { limits })).exit.reason).toBe('memory_limit');
      });

      test('in many processes', async () => {
        const program = `import os\nfor _ in range(5): os.fork()\na = bytearray(20 << 20)\n${stays}`;
        expect((await oncePython(program, { limits })).exit.reason).toBe('memory_limit');
      });

      test('in shared memory', async () => {
        const program = `import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1\n${stays}`;
        expect((await oncePython(program, { limits })).exit.reason).toBe('memory_limit');
      });

      test('in files', async () => {
        const program = `with open('/tmp/f', 'wb') as f:
    for _ in range(60): f.write(bytes(1 << 20))
a = bytearray(80 << 20)
${stays}`;
        const { exit } = await oncePython(program, { limits: { ...limits, diskBytes: 90 * MB } });
        expect(exit.reason).toBe('memory_limit');
      });

      test('in page tables', async () => {
        // Reading one byte in each 2 MB allocates a page of page tables and no other memory.
        const program = `import ctypes, mmap
m = mmap.mmap(-1, 120 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
m.madvise(15)
for i in range(0, 120 << 30, 2 << 20): m[i]
print('all')
${stays}`;
        const { out, exit } = await oncePython(program, { limits });
        expect({ out, reason: exit.reason }).toEqual({ out: expect.any(String), reason: 'memory_limit' });
      });

      test.each([
        ['streams', 'socket.socketpair()'],
        ['datagrams', 'socket.socketpair(type=socket.SOCK_DGRAM)'],
        ['streams whose sender is closed', 'closing()'],
        ['connections to itself', 'looped()'],
      ])('in the buffers of sockets: %s', async (_, pair) => {
        const program = `import os, socket, time
def looped():
    server = socket.create_server(('127.0.0.1', 0))
    a = socket.create_connection(server.getsockname()); b, _ = server.accept()
    return a, b
def closing():
    a, b = socket.socketpair()
    a.setblocking(False)
    try:
        while True: a.send(b'x')
    except BlockingIOError: pass
    a.close()
    return b,
for _ in range(3): os.fork()
kept = []
try:
    for _ in range(100):
        ends = ${pair}
        kept.append(ends)
        if len(ends) == 2:
            ends[0].setblocking(False)
            try:
                while True: ends[0].send(b'x' * 32768)
            except BlockingIOError: pass
except OSError as e:
    print(e)
    if not kept: raise SystemExit(1)
${stays}`;
        const { out, exit } = await oncePython(program, { limits });
        // Tasks without network lack this address family.
        if (pair === 'looped()' && out.includes('Address family not supported')) return;
        expect({ out, reason: exit.reason }).toEqual({ out: expect.any(String), reason: 'memory_limit' });
      });

      test('but shares a large heap between forks, which counts once', async () => {
        const program = `import os, time
a = bytearray(60 << 20)
pids = []
for _ in range(6):
    pid = os.fork()
    if pid == 0: time.sleep(0.5); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
print('done')
`;
        expect((await oncePython(program, { limits })).out).toBe('done\n');
      });

      test('and can run another command afterwards', async () => {
        const session = await open({ limits });
        await python(session, `a = []\nwhile True: a.append(bytearray(1 << 20))\n`);
        expect((await ran(session, 'echo on')).out).toBe('on\n');
      });
    });

    test('cannot fill the disk', async () => {
      const session = await open();
      const huge = await ran(session, 'head -c 200000000 /dev/zero > huge; stat -c %s huge; rm huge');
      expect(huge.out).toBe(`${LIMITS.fileBytes}\n`);
      if (isContainer) {
        // File systems of the container have no limit of their own; the memory watcher covers them.
        const filled = await ran(session, 'for i in 1 2 3 4; do head -c 40000000 /dev/zero > f$i; done; sleep 100');
        return expect(filled.exit.reason).toBe('memory_limit');
      }
      const many = await ran(
        session,
        'for i in 1 2 3 4 5 6 7 8; do head -c 20000000 /dev/zero > f$i || break; done; for i in 1 2 3 4 5 6 7 8; do head -c 20000000 /dev/zero > /tmp/f$i || break; done; cat f* /tmp/f* | wc -c; rm f* /tmp/f*',
      );
      expect(Number(many.out)).toBeLessThanOrEqual(LIMITS.diskBytes);
      expect(Number(many.out)).toBeGreaterThan(LIMITS.diskBytes * 0.9);
      expect(many.err).toContain('No space left');
      const shm = await ran(
        session,
        'for i in 1 2 3 4 5 6 7; do head -c 30000000 /dev/zero > /dev/shm/f$i; done 2>/dev/null; cat /dev/shm/* | wc -c; rm /dev/shm/*',
      );
      expect(Number(shm.out)).toBeLessThanOrEqual(LIMITS.diskBytes);
    });

    test('cannot use the CPU past its limit', async () => {
      const limits = { ...LIMITS, cpuSeconds: 1 };
      // On a busy machine one second of CPU time takes much longer.
      const { exit } = await once('while :; do :; done', { limits }, { timeoutMs: 100_000 });
      expect(exit.reason).toBe('exited');
      expect([137, 152]).toContain(exit.exitCode);
      const deadline = await once('while :; do :; done', {}, { timeoutMs: 300 });
      expect(deadline.exit.reason).toBe('timeout');
    }, 120_000);

    test('leaves no core files and opens no more than 1024 files', async () => {
      const { out } = await once('ulimit -c; ulimit -n; ulimit -Hn');
      expect(out).toBe('0\n1024\n1024\n');
    });
  });

  describe('egress', () => {
    const direct = `import socket
for address in (('127.0.0.1', 22), ('169.254.169.254', 80), ('10.0.0.1', 80), ('192.168.0.1', 80), ('1.1.1.1', 53), ('::1', 80)):
    try:
        s = socket.socket(socket.AF_INET6 if ':' in address[0] else socket.AF_INET); s.settimeout(3)
        s.connect(address); print('connected', address)
    except OSError: pass
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53)); print('sent')
except OSError: pass
print('end')
`;
    // In a container, the surrounding network controls connections that bypass the proxy.
    test.each(isContainer ? (['none'] as const) : (['none', 'open', { allow: ['example.org'] }] as const))(
      '%j: nothing is reached past the proxy',
      async (egress) => {
        expect((await oncePython(direct, { egress })).out).toBe('end\n');
      },
    );

    test('none: there is no proxy', async () => {
      expect((await once('env | grep -i proxy; (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null || echo none')).out).toBe(
        'none\n',
      );
    });

    test('open: private addresses are refused in every spelling', async () => {
      const targets = [
        '127.0.0.1:80',
        'localhost:80',
        'LOCALHOST.:80',
        '127.1:80',
        '0x7f.1:80',
        '0177.0.0.1:80',
        '2130706433:80',
        '127.0.0.1.:80',
        '0.0.0.0:80',
        '10.0.0.1:80',
        '172.16.0.1:80',
        '192.168.1.1:80',
        '100.64.0.1:80',
        '169.254.169.254:80',
        '0xa9fea9fe:80',
        '224.0.0.1:80',
        '255.255.255.255:80',
        '[::1]:80',
        '[::]:80',
        '[::ffff:127.0.0.1]:80',
        '[::ffff:7f00:1]:80',
        '[64:ff9b::7f00:1]:80',
        '[2002:7f00:1::]:80',
        '[fe80::1]:80',
        '[fc00::1]:80',
        '[fd00:ec2::254]:80',
      ];
      const { out } = await oncePython(throughProxy(targets), { egress: 'open' });
      expect(out).toBe(targets.map((target) => `${target} 403 403\n`).join(''));
    });

    test('a list: unlisted hosts are refused, and so are private addresses that are listed', async () => {
      const targets = [
        'other.example:80',
        'example.org.evil.example:80',
        'evilexample.org:80',
        'example.net:80',
        'localhost:80',
        '10.0.0.1:80',
      ];
      const allow = ['example.org', '*.example.net', 'localhost', '10.0.0.1'];
      const { out } = await oncePython(throughProxy(targets), { egress: { allow } });
      expect(out).toBe(targets.map((target) => `${target} 403 403\n`).join(''));
    });

    // Where a container is the sandbox, names resolve as in its network.
    testWhere(!isContainer)(
      'targets have loopback addresses inside, which lead nowhere that is not allowed',
      async () => {
        const [name, closed] = [hostname().toLowerCase(), 'unknown.invalid'];
        const egressTargets = { targets: [`${name}:5432`, `${name}:5433`, `${closed}:6379`], privateRanges: [] };
        const program = `import os, socket, urllib.parse
for at in (('${name}', 5432), ('${name}', 5433), ('${closed}', 6379), ('${name}', 5434), ('other.invalid', 5432)):
    try:
        s = socket.create_connection(at, 10); s.sendall(b'hello')
        try: print(*at, s.getpeername()[0], s.recv(100))
        except ConnectionResetError: print(*at, s.getpeername()[0], b'')
    except socket.gaierror: print(*at, 'no such name')
    except OSError: print(*at, 'refused')
try: open('/etc/hosts', 'a'); print('written')
except OSError: print('read-only')
`;
        const { out } = await oncePython(program, { egress: 'open', egressTargets });
        expect(out).toBe(
          [
            `${name} 5432 127.80.0.1 b''`,
            `${name} 5433 127.80.0.1 b''`,
            `${closed} 6379 127.80.0.2 b''`,
            `${name} 5434 refused`,
            'other.invalid 5432 no such name',
            'read-only\n',
          ].join('\n'),
        );
        const asked = await oncePython(throughProxy([`${name}:5432`, `${name}:5434`]), {
          egress: 'open',
          egressTargets,
        });
        expect(asked.out).toBe(`${name}:5432 403 403\n${name}:5434 403 403\n`);
        expect((await once('cat /etc/hosts', { egress: 'open' })).out).not.toContain('127.80');
      },
    );

    test('the proxy survives malformed requests', async () => {
      const program = `import os, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTPS_PROXY'])
for text in (b'\\x00' * 5000, b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', b'CONNECT x HTTP/1.1\\r\\n\\r\\n', b'CONNECT [ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', b'GET ftp://x/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', b''):
    s = socket.create_connection((proxy.hostname, proxy.port), 10)
    s.sendall(text)
    s.shutdown(socket.SHUT_WR)
    while s.recv(1000): pass
print('end')
`;
      expect((await oncePython(program, { egress: 'open' })).out).toBe('end\n');
    });
  });
}

async function bytesOf(session: SandboxSession, path: string): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(await session.readFile(path)));
}

/** Creates a tar.gz with `tar`. Files whose path contains `bin/` are executable. */
export function tarOf(files: Readonly<Record<string, string>>): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'tar-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(join(folder, 'content', dirname(name)), { recursive: true });
      writeFileSync(join(folder, 'content', name), content, { mode: name.includes('bin/') ? 0o755 : 0o644 });
    }
    const { status, stderr } = spawnSync('tar', ['-czf', 'archive.tar.gz', '-C', 'content', '.'], { cwd: folder });
    if (status !== 0) throw new Error(`tar failed: ${stderr}`);
    return readFileSync(join(folder, 'archive.tar.gz'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
