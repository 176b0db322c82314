import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { archiveOf } from './cpio.ts';

/**
 * Runs the sandbox suite in a virtual machine with cgroup v2, where limits are the kernel's: `npm run test:cgroup`. The
 * machine is a kernel of Debian over this machine's files, which it sees read-only below a layer in memory. Further
 * arguments go to Vitest. It needs
 * qemu-system-x86_64, and apt-get to download a kernel once. The processor is emulated, so it takes minutes.
 */
const ROOT = join(import.meta.dirname, '../..');
const CACHE = join(ROOT, '.cache/cgroup-vm');
const TIMEOUT_MS = 3_600_000;
/** In the order in which they need each other. */
const MODULES = [
  'virtio_ring',
  'virtio',
  'virtio_pci_legacy_dev',
  'virtio_pci_modern_dev',
  'virtio_pci',
  'netfs',
  'fscache',
].concat(['9pnet', '9pnet_virtio', '9p', 'overlay', 'unix_diag', 'inet_diag', 'tcp_diag', 'udp_diag']);
const DEFAULT_TESTS = ['--project', 'heavy', '--testTimeout', '300000', 'local/sandbox/unshare.heavy.test.ts'];

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${error?.message ?? stderr}`);
  return stdout;
}

/** Downloads Debian's kernel and a static shell, without installing them. Returns the folder of their files. */
function kernelFiles(): string {
  const folder = join(CACHE, 'root');
  if (existsSync(join(folder, 'bin/busybox'))) return folder;
  rmSync(CACHE, { recursive: true, force: true });
  mkdirSync(CACHE, { recursive: true });
  const image = /Depends: (linux-image-\S+)/.exec(run('apt-cache', ['depends', 'linux-image-amd64'], CACHE))![1]!;
  run('apt-get', ['download', image, 'busybox-static'], CACHE);
  for (const name of readdirSync(CACHE)) {
    if (!name.endsWith('.deb')) continue;
    run('dpkg', ['-x', name, 'root'], CACHE);
    rmSync(join(CACHE, name));
  }
  return folder;
}

/** The first programs of the machine: they mount this machine's files and start the suite. */
function initialFiles(files: string, command: string): Buffer {
  const modules = run('find', [join(files, 'lib/modules'), '-name', '*.ko*'], ROOT).split('\n');
  const found = MODULES.flatMap((name) => modules.find((path) => path.endsWith(`/${name}.ko`)) ?? []);
  const script = `#!/bin/busybox sh
busybox mount -t proc proc /proc; busybox mount -t devtmpfs dev /dev
${found.map((_, index) => `busybox insmod /modules/${index}.ko`).join('\n')}
busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro host /low || busybox poweroff -f
busybox mount -t tmpfs -o size=4g memory /up; busybox mkdir /up/upper /up/work
busybox mount -t overlay -o lowerdir=/low,upperdir=/up/upper,workdir=/up/work overlay /new
busybox mount -t proc proc /new/proc; busybox mount -t sysfs sys /new/sys; busybox mount -t devtmpfs dev /new/dev
busybox mkdir -p /new/dev/shm /new/dev/pts; busybox mount -t tmpfs shm /new/dev/shm; busybox mount -t devpts pts /new/dev/pts
busybox mount -t tmpfs run /new/run; busybox mount -t cgroup2 cgroup /new/sys/fs/cgroup
busybox ip link set lo up; busybox hostname vm
exec busybox switch_root /new /bin/sh -c '${command.replaceAll("'", `'\\''`)}'
`;
  const folders = ['bin', 'proc', 'dev', 'low', 'up', 'new', 'modules'].map((name) => ({ name }));
  return archiveOf([
    ...folders,
    { name: 'bin/busybox', content: readFileSync(join(files, 'bin/busybox')) },
    { name: 'init', content: Buffer.from(script) },
    ...found.map((path, index) => ({ name: `modules/${index}.ko`, content: readFileSync(path) })),
  ]);
}

async function main(): Promise<number> {
  if (spawnSync('qemu-system-x86_64', ['--version']).status !== 0) {
    console.log('Skipped: the limits of cgroups are tested in a virtual machine, which needs qemu-system-x86_64.');
    return 0;
  }
  const files = kernelFiles();
  const tests = process.argv.length > 2 ? process.argv.slice(2) : DEFAULT_TESTS;
  const vitest = [process.execPath, join(ROOT, 'node_modules/vitest/vitest.mjs'), 'run', ...tests];
  const quoted = vitest.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  const command = `cd '${ROOT}'; export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root; ${quoted}; echo "exit status: $?"; echo o > /proc/sysrq-trigger; sleep 60`;
  writeFileSync(join(CACHE, 'initrd'), initialFiles(files, command));
  const kernel = readdirSync(join(files, 'boot')).find((name) => name.startsWith('vmlinuz-'))!;
  const machine = spawn(
    'qemu-system-x86_64',
    ['-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', '2', '-m', '8G', '-nographic', '-no-reboot', '-nic', 'none']
      .concat(['-kernel', join(files, 'boot', kernel), '-initrd', join(CACHE, 'initrd')])
      .concat(['-append', 'console=ttyS0 quiet panic=-1 cgroup_no_v1=all'])
      .concat(['-virtfs', 'local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap']),
    { stdio: ['ignore', 'pipe', 'inherit'], timeout: TIMEOUT_MS },
  );
  let tail = '';
  for await (const chunk of machine.stdout) {
    process.stdout.write(chunk);
    tail = (tail + chunk).slice(-1000);
  }
  return Number(/exit status: (\d+)/.exec(tail)?.[1] ?? 1);
}

process.exitCode = await main();
