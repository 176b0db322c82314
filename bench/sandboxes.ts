import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zipSync } from 'fflate';
import { execToEnd, type Sandbox, type SandboxSession, type SandboxSpec } from '#core/ports/sandbox.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { tarOf } from '#test/conformance/sandbox.ts';
import { ms, processorMs, ROUNDS, type Row, timed } from './harness.ts';
import { median } from './statistics.ts';

const MB = 1024 * 1024;
const SPEC: SandboxSpec = {
  env: {},
  egress: 'none',
  purpose: 'run',
  limits: { memoryBytes: 512 * MB, cpuSeconds: 60, processes: 64, fileBytes: 64 * MB, diskBytes: 96 * MB },
};

/** Prints the CPU seconds of a number of busy processes over four seconds, each in its own session. */
const burn = (processes: number): string => `import os, time
def burn():
    end = time.monotonic() + 4
    while time.monotonic() < end: pass
    os._exit(0)
for _ in range(${processes}):
    if os.fork() == 0:
        os.setsid()
        burn()
for _ in range(${processes}): os.wait()
t = os.times()
print(t.children_user + t.children_system)`;

/** Their total memory exceeds the limit unless shared pages count once, which is the watcher's slowest path. */
const SHARE = `import mmap, os, time
shared = mmap.mmap(-1, 48 << 20)
for page in range(0, len(shared), 4096): shared[page] = 1
for _ in range(20):
    if os.fork() == 0:
        sum(shared[page] for page in range(0, len(shared), 4096))
        time.sleep(1.5)
        os._exit(0)
for _ in range(20): os.wait()`;

const BUNDLE = 'bundles/folder.zip';
const LAYER = 'layers/folder.tar.gz';

/** Measures the fairness between sandboxes, and the cost of watching them and of a writable folder. */
export async function benchSandboxes(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-sandboxes-'));
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs });
  try {
    await blobs.put(BUNDLE, zipSync({ 'main.txt': new Uint8Array(100_000) }));
    await blobs.put(LAYER, tarOf({ 'python/main.txt': 'x'.repeat(100_000) }));
    return [await benchShares(sandbox), await benchWatching(sandbox), await benchFolder(sandbox)];
  } finally {
    await sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function benchShares(sandbox: Sandbox): Promise<Row> {
  const secondsOf = async (processes: number) => Number((await runPython(sandbox, burn(processes))).printed);
  const [many, few] = await Promise.all([secondsOf(40), secondsOf(2)]);
  const ratio = many / few;
  return {
    what: 'processor time of a run with 40 busy sessions',
    ours: `${many.toFixed(1)} s`,
    beside: `a run with 2, at the same time: ${few.toFixed(1)} s`,
    result: `${ratio.toFixed(1)} x`,
    // A share by processes would be 20. Two sessions with a CPU each get all they can use.
    bound: 'at most 10 x',
    isMet: ratio <= 10,
  };
}

async function benchWatching(sandbox: Sandbox): Promise<Row> {
  const { seconds, watching } = await runPython(sandbox, SHARE);
  const share = watching / seconds;
  return {
    what: 'watching a run of 20 idle processes that share 48 MB',
    ours: `${watching.toFixed(2)} s of a processor`,
    beside: `the run: ${seconds.toFixed(2)} s`,
    result: `${share.toFixed(2)} of it`,
    bound: 'at most 0.30',
    isMet: share <= 0.3,
  };
}

/** Services, because sandboxes that are started ahead for runs would hide the cost. */
async function benchFolder(sandbox: Sandbox): Promise<Row> {
  const opening = async (spec: Partial<SandboxSpec>): Promise<number> => {
    let session: SandboxSession | undefined;
    const took = await timed(async () => {
      session = await sandbox.open({ ...SPEC, purpose: 'service', ...spec });
    });
    await session?.close();
    return took;
  };
  const readOnly: number[] = [];
  const writable: number[] = [];
  for (let round = 0; round < 40 * ROUNDS; round++) {
    readOnly.push(await opening({ layer: LAYER }));
    writable.push(await opening({ bundle: BUNDLE }));
  }
  const more = median(writable) - median(readOnly);
  return {
    what: 'opening a sandbox with a writable folder',
    ours: ms(median(writable)),
    beside: `one with a read-only folder: ${ms(median(readOnly))}`,
    result: `${ms(more)} more`,
    bound: 'at most 1 ms more',
    isMet: more <= 1,
  };
}

/** Runs a program in its own session. Throws unless it succeeds. */
async function runPython(sandbox: Sandbox, program: string) {
  const session = await sandbox.open(SPEC);
  try {
    const before = watchingMs();
    const command = { command: 'python3 -', stdin: Buffer.from(program), timeoutMs: 60_000 };
    const { stdout, stderr, exit } = await execToEnd(session, command);
    // The watcher ends with the session.
    const took = [...watchingMs()].map(([pid, ms]) => ms - (before.get(pid) ?? 0));
    const watching = took.reduce((sum, ms) => sum + ms, 0) / 1000;
    if (exit.exitCode !== 0) throw new Error(`the program ended with ${JSON.stringify(exit)}: ${stderr}`);
    return { printed: Buffer.from(stdout).toString(), seconds: exit.durationMs / 1000, watching };
  } finally {
    await session.close();
  }
}

/** CPU time so far by process, for the launchers of this process and their watchers. */
function watchingMs(): Map<number, number> {
  const times = new Map<number, number>();
  const add = (parent: number, title: string) => {
    for (const pid of childrenOf(parent)) {
      try {
        if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(title)) continue;
        times.set(pid, processorMs(pid));
      } catch {
        // The process has ended.
      }
    }
  };
  add(process.pid, 'platform-sandbox-launcher');
  for (const launcher of [...times.keys()]) add(launcher, 'platform-sandbox-watcher');
  return times;
}

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
