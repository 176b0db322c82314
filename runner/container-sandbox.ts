import { readFileSync, statSync } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Blobs } from '#core/ports/blobs.ts';
import type { SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { linkSdk, unpackBundle, unpackLayer } from './content-cache.ts';
import { Launcher } from './launcher.ts';
import { type Network, openBox, portsOf } from './open-box.ts';

const LAUNCHER = fileURLToPath(new URL('launcher.pl', import.meta.url));
const BUNDLE = '/home/user/agent';
const LAYER = '/layer';
/** The launcher, init and one supervisor. */
const PROCESSES = 3;

interface ContainerSandboxOptions {
  /** Whether this process must be process 1, so that its end is the end of all else. */
  readonly isProcess1: boolean;
  readonly blobs: Pick<Blobs, 'get' | 'stream'>;
  /** Absolute. */
  readonly perl: string;
  readonly scratchFolder: string;
  /** Called when the job has ended its own sandbox, or memory did. */
  onLost(): void;
  log(line: string): void;
}

/**
 * One sandbox in a container that is nobody else's, such as a Fargate task: the container isolates, and goes when the
 * runner ends. The runner and its job are the same user, so that neither needs a privilege. What keeps them apart: the
 * runner is process 1, which no signal from inside ends or stops; it cannot be traced or read; and when it ends, so does
 * all else. What a job can do is end itself. In a VM, where the runner may not be process 1, a job can end it and stand in
 * its place: it would answer for its own run, which prints what it likes anyway, until the VM is ended from outside.
 */
export class ContainerSandbox {
  readonly #options: ContainerSandboxOptions;

  /** Throws when this process is not what the protection rests on. */
  constructor(options: ContainerSandboxOptions) {
    this.#options = options;
    if (options.isProcess1 && process.pid !== 1) {
      throw new Error('in a container the runner must be process 1, without an init before it');
    }
    if (statSync('/proc/self/environ').uid === process.getuid?.()) {
      throw new Error(
        'in a container the runner must be started by its unreadable loader, or jobs could read its memory',
      );
    }
  }

  async open(spec: SandboxSpec, network: Network): Promise<SandboxSession> {
    const { blobs, perl, scratchFolder, log, onLost } = this.#options;
    if (spec.bundle !== undefined) {
      await mkdir(BUNDLE);
      await unpackBundle(blobs, spec.bundle, BUNDLE);
      await makeReadOnly(BUNDLE);
    }
    if (spec.layer === undefined) await linkSdk(LAYER);
    else await unpackLayer(blobs, spec.layer, LAYER);
    await makeReadOnly(LAYER);
    const launcher = await Launcher.start({
      perl,
      script: LAUNCHER,
      scratch: await mkdtemp(join(scratchFolder, 'launcher-')),
      sources: [],
      log,
    });
    const box = await launcher.start({
      ports: portsOf(spec.egress, network),
      diskBytes: spec.limits.diskBytes,
      how: () => ['container'],
    });
    void box.gone.then(onLost);
    return openBox(box, spec, network, () => {}, { ownProcesses: PROCESSES + threads() });
  }
}

/** Of this process: they count against its user's limit. */
const threads = (): number => Number(/^Threads:\t(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);

async function makeReadOnly(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadOnly(path);
    else if (entry.isFile()) await chmod(path, (await lstat(path)).mode & 0o555);
  }
  await chmod(folder, 0o555);
}
