import type { Clock } from '#core/ports/clock.ts';
import {
  type ExecEvent,
  type ExecExit,
  type ExecRequest,
  KILLED_EXIT_CODE,
  type SandboxSession,
} from '#core/ports/sandbox.ts';

/**
 * Folder of a program that works in its sandbox while no process of the platform waits for it. Its input, its output and
 * its exit code are files there, which any process with a session of the sandbox can read.
 */
const FOLDER = '/tmp/.program';
/** How long one look waits for something new. */
const LOOK_SECONDS = 5;
const LOOK_TIMEOUT_MS = 60_000;
/** Output that one look returns of each stream. */
const PIECE_BYTES = 512 * 1024;
const MAX_OUTPUT_BYTES = 10 * 1024 * 1024;
/** What is kept of stderr, as of any command: `docs/interface/sandbox.md#program-protocol`. */
const STDERR_HEAD_BYTES = 1024 * 1024;
const STDERR_TAIL_BYTES = 64 * 1024;
const TERM_MS = 2_000;
/** What it started may print without end. */
const LATEST_MS = 20_000;

/** The command and its input are files, so that no shell reads them twice. `exit` appears in one step, and last. */
const START = `sh=$(command -v bash || command -v sh)
{
  "$sh" -c "$(cat ${FOLDER}/command)" < ${FOLDER}/in > ${FOLDER}/out 2> ${FOLDER}/err &
  echo $! > ${FOLDER}/pid
  wait $!
  echo $? > ${FOLDER}/code
  mv ${FOLDER}/code ${FOLDER}/exit
} > /dev/null 2>&1 < /dev/null &`;

/** Waits for new output or the end. Prints the exit code (or `-`) and the sizes of both streams, then what is new. */
const lookAt = (stdout: number, stderr: number, seconds: number): string => `cd ${FOLDER} || exit 9
i=0
while [ $i -lt ${Math.ceil(seconds * 5)} ] && [ ! -f exit ] && [ "$(wc -c < out)" -le ${stdout} ] && [ "$(wc -c < err)" -le ${stderr} ]; do
  sleep 0.2; i=$((i + 1))
done
e=-; if [ -f exit ]; then e=$(tr -dc 0-9 < exit | head -c 3); fi
echo "\${e:-137}" $(wc -c < out) $(wc -c < err)
tail -c +${stdout + 1} out | head -c ${PIECE_BYTES}
tail -c +${stderr + 1} err | head -c ${PIECE_BYTES} >&2`;

/** Exit code of {@link STOP} for a program that has ended by itself. */
const HAD_ENDED = 3;
const STOP = `[ ! -f ${FOLDER}/exit ] || exit ${HAD_ENDED}
kill -TERM $(cat ${FOLDER}/pid)`;

/** Starts a program, and returns at once. Returns false if it did not start. Throws a `SandboxFileError`. */
export async function startDetached(session: SandboxSession, { command, stdin, cwd }: ExecRequest): Promise<boolean> {
  await session.writeFile(`${FOLDER}/in`, stdin ?? new Uint8Array());
  await session.writeFile(`${FOLDER}/command`, Buffer.from(command));
  for (const name of ['out', 'err']) await session.writeFile(`${FOLDER}/${name}`, new Uint8Array());
  const { exit } = await run(session, {
    command: START,
    timeoutMs: LOOK_TIMEOUT_MS,
    ...(cwd !== undefined && { cwd }),
  });
  return exit.reason === 'exited' && exit.exitCode === 0;
}

/**
 * Follows a program that was started, from its first output to its end, as `exec` does. `mayLeave` is asked when
 * all output so far is read: what it throws ends this, and the program works on.
 *
 * @param startedAt Start of the program, in epoch milliseconds.
 */
export async function* followDetached(
  session: SandboxSession,
  clock: Clock,
  { startedAt, deadline, signal, mayLeave }: FollowOptions,
): AsyncGenerator<ExecEvent> {
  const seen = { stdout: 0, stderr: 0 };
  let tail = Buffer.alloc(0);
  let isStopped = false;
  const exit = (reason: ExecExit['reason'], exitCode = KILLED_EXIT_CODE): ExecEvent => ({
    type: 'exit',
    exit: { reason, exitCode, durationMs: clock.now() - startedAt },
  });
  for (;;) {
    const secondsLeft = Math.max(0, (deadline - clock.now()) / 1000);
    if (secondsLeft === 0 && !isStopped) {
      const { exit: stopped } = await run(session, { command: STOP, timeoutMs: LOOK_TIMEOUT_MS, signal });
      isStopped = stopped.exitCode !== HAD_ENDED;
      if (isStopped) await clock.sleep(TERM_MS, signal).catch(() => {});
    }
    const looked = await run(session, {
      command: lookAt(seen.stdout, seen.stderr, Math.min(LOOK_SECONDS, secondsLeft)),
      timeoutMs: LOOK_TIMEOUT_MS,
      signal,
    });
    if (signal.aborted) return void (yield exit('aborted'));
    if (looked.exit.reason !== 'exited' || looked.exit.exitCode !== 0) {
      const { reason } = looked.exit;
      if (reason === 'memory_limit') return void (yield exit(reason));
      return void (yield exit(clock.now() >= deadline ? 'timeout' : 'sandbox_lost'));
    }
    const end = looked.stdout.indexOf('\n');
    const [code, stdoutBytes, stderrBytes] = looked.stdout.subarray(0, end).toString().split(' ');
    const pieces = { stdout: looked.stdout.subarray(end + 1), stderr: looked.stderr };
    const room = Math.max(0, STDERR_HEAD_BYTES - seen.stderr);
    const [head, rest] = [pieces.stderr.subarray(0, room), pieces.stderr.subarray(room)];
    tail = Buffer.concat([tail, rest]).subarray(-STDERR_TAIL_BYTES);
    for (const type of ['stdout', 'stderr'] as const) seen[type] += pieces[type].byteLength;
    if (pieces.stdout.byteLength > 0) yield { type: 'stdout', data: pieces.stdout };
    if (head.byteLength > 0) yield { type: 'stderr', data: head };
    if (seen.stdout > MAX_OUTPUT_BYTES) return void (yield exit('output_limit'));
    const isRead = seen.stdout >= Number(stdoutBytes) && seen.stderr >= Number(stderrBytes);
    const isLate = clock.now() >= deadline + LATEST_MS;
    if (code === '-' ? isStopped : isRead || isLate) {
      if (tail.byteLength > 0) yield { type: 'stderr', data: tail };
      return void (yield isStopped ? exit('timeout') : exit('exited', Number(code)));
    }
    // The next process begins with the first piece, too.
    if (isRead) await mayLeave();
  }
}

interface FollowOptions {
  readonly startedAt: number;
  readonly deadline: number;
  readonly signal: AbortSignal;
  readonly mayLeave: () => Promise<void>;
}

async function run(session: SandboxSession, request: Parameters<SandboxSession['exec']>[0]) {
  const printed = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  for await (const event of session.exec(request)) {
    if (event.type !== 'exit') printed[event.type].push(event.data);
    else return { stdout: Buffer.concat(printed.stdout), stderr: Buffer.concat(printed.stderr), exit: event.exit };
  }
  throw new Error('a sandbox command ended without an exit event');
}
