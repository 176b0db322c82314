import { execFile } from 'node:child_process';
import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { copyFile, cp, glob, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** One entry of a sandbox's file system: `bind` shows `from` read-only, `link` is a symbolic link to `from`. */
export interface RootEntry {
  readonly operation: 'bind' | 'link';
  readonly at: string;
  readonly from: string;
}

export interface HostRuntime {
  readonly interpreters: { readonly python?: string; readonly node?: string };
  /** Entries visible in every sandbox; real paths only. */
  readonly root: readonly RootEntry[];
  /** Absolute paths of programs found on the host's PATH. */
  readonly perl?: string;
  readonly bubblewrap?: string;
}

/** The platform's own packages, which agents import without installing them. */
export const SDK = {
  node: { name: 'agent-platform-sdk', folder: fileURLToPath(new URL('../sdk/js', import.meta.url)) },
  python: { name: 'agent_platform', folder: fileURLToPath(new URL('../sdk/python', import.meta.url)) },
} as const;
/** Programs that let tools of loops call other agents. */
const HELPERS = fileURLToPath(new URL('../sdk/helpers', import.meta.url));
/** Paths of the packages inside a sandbox. */
export const SDK_NODE_MODULES = '/runtime/node_modules';
export const SDK_PYTHONPATH = '/runtime/python';
/** pip, the only package of the host's Python that is visible: `python3 -m pip` must work. */
export const PIP_PACKAGE = `${SDK_PYTHONPATH}/pip`;
/** Name of the folder that replaces the host's Python packages. It holds {@link PYTHON_PATHS} only. */
export const NO_PACKAGES = 'nothing';
/**
 * Lets each Python of the machine find the layer and the SDK by itself, however it was started: with an empty
 * environment, isolated (`-I`), or by its full path. https://docs.python.org/3/library/site.html
 */
const PYTHON_PATHS = `import os; 'PLATFORM_STANDBY' in os.environ and exec(open('/runtime/standby.py').read())
import os, site, sys; layer = '/layer/venv/lib/python%d.%d/site-packages' % sys.version_info[:2]; layer in sys.path or not os.path.isdir(layer) or site.addsitedir(layer)
${SDK_PYTHONPATH}
`;

/**
 * Keeps an interpreter waiting that was started before its program is called (`stand_by` in `perl/init.pl`). It runs
 * while Python imports `site`, the last step before Python looks for the program, and leaves nothing behind. A variable of
 * the same name that a program has names no socket. An exception would let Python go on, so it ends the process.
 */
const STANDBY = `def socket_of_orders():
    try:
        descriptor, number = map(int, os.environ['PLATFORM_STANDBY'].split())
        return descriptor if os.fstat(descriptor).st_ino == number else None
    except (OSError, ValueError):
        return None

def stand_by(descriptor):
    os.write(descriptor, b'.')
    with open(descriptor, 'rb') as orders:
        variables = orders.read().split(b'\\0')
    os.environb.clear()
    os.environb.update(variable.split(b'=', 1) for variable in variables)

descriptor = socket_of_orders()
if descriptor is not None:
    try:
        stand_by(descriptor)
    except BaseException:
        os._exit(127)
`;

/**
 * Parts of /etc that programs need to start, to trust certificates and to tell the time. They reveal nothing specific
 * to the host.
 */
const ETC_FOLDERS = ['alternatives', 'ca-certificates', 'crypto-policies', 'pki/ca-trust', 'pki/tls', 'ssl/certs'];
const ETC_COPIES = ['ld.so.cache', 'localtime', 'mime.types', 'protocols', 'services', 'ssl/openssl.cnf', 'timezone'];

const ETC_FILES: Readonly<Record<string, string>> = {
  passwd: 'user:x:1000:1000:user:/home/user:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
  group: 'user:x:1000:\nnogroup:x:65534:\n',
  hostname: 'sandbox\n',
  hosts: '127.0.0.1 localhost sandbox\n::1 localhost\n',
  // The egress proxy resolves names. A DNS query inside fails at once instead of waiting for a server.
  'resolv.conf': 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\n',
  // Debian marks its Python as managed by apt, which would block `pip install` into the home folder too.
  'pip.conf': '[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\n',
};

/**
 * Finds the language runtimes of this host. Files for the sandbox are created in `folder`, which must not be removed.
 */
export async function findHostRuntime(folder: string, node = process.execPath): Promise<HostRuntime> {
  const root: RootEntry[] = [{ operation: 'bind', at: '/usr', from: '/usr' }];
  for (const name of ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']) {
    const path = `/${name}`;
    if (!existsSync(path)) continue;
    if (lstatSync(path).isSymbolicLink()) root.push({ operation: 'link', at: path, from: readlinkSync(path) });
    else root.push({ operation: 'bind', at: path, from: path });
  }
  const etc = join(folder, 'etc');
  await rm(etc, { recursive: true, force: true });
  root.push({ operation: 'bind', at: '/etc', from: etc });
  for (const name of ETC_FOLDERS) {
    if (!existsSync(`/etc/${name}`)) continue;
    await mkdir(join(etc, name), { recursive: true });
    bind(root, `/etc/${name}`, `/etc/${name}`);
  }
  await mkdir(join(etc, 'ssl'), { recursive: true });
  for (const name of ETC_COPIES) {
    if (existsSync(`/etc/${name}`)) await copyFile(`/etc/${name}`, join(etc, name));
  }
  for (const [name, text] of Object.entries(ETC_FILES)) await writeFile(join(etc, name), text);

  bind(root, `${SDK_NODE_MODULES}/${SDK.node.name}`, SDK.node.folder);
  bind(root, '/runtime/helpers', HELPERS);
  bind(root, '/runtime/bin/node', node);
  await addNpm(root, folder);
  const python = await addPython(root, folder);
  const [perl, bubblewrap] = await Promise.all([which('perl'), which('bwrap')]);
  return { interpreters: { ...(python && { python }), node: process.versions.node }, root, perl, bubblewrap };
}

function bind(root: RootEntry[], at: string, from: string): void {
  if (existsSync(from)) root.push({ operation: 'bind', at, from: realpathSync(from) });
}

const isUnderUsr = (path: string): boolean => path === '/usr' || path.startsWith('/usr/');

/**
 * npm takes the nearest folder with a package.json or packages as its project. It must not take the root folder, which
 * is read-only and whose packages are only for programs to import.
 */
const npmScript = (cli: string): string => `#!/bin/sh
folder=$PWD
while [ -n "$folder" ]; do
  if [ -e "$folder/package.json" ] || [ -d "$folder/node_modules" ]; then exec node ${cli} "$@"; fi
  folder=\${folder%/*}
done
exec node ${cli} --prefix "$PWD" "$@"
`;

/** npm is a folder of JavaScript, found through its command. The script made here runs it with the sandbox's Node. */
async function addNpm(root: RootEntry[], scripts: string): Promise<void> {
  const command = await which('npm');
  if (!command) return;
  const folder = dirname(dirname(realpathSync(command)));
  if (!existsSync(join(folder, 'bin', 'npm-cli.js'))) return;
  const shown = isUnderUsr(folder) ? folder : '/runtime/npm';
  if (shown !== folder) bind(root, shown, folder);
  const npm = join(scripts, 'npm');
  await writeFile(npm, npmScript(`${shown}/bin/npm-cli.js`), { mode: 0o755 });
  root.push({ operation: 'bind', at: '/runtime/bin/npm', from: npm });
  root.push({ operation: 'link', at: '/runtime/bin/npx', from: `${shown}/bin/npx-cli.js` });
}

/**
 * Reports the real interpreter, even if `python3` is a wrapper or a venv, and compiles the package in the given folder:
 * sandboxes cannot write there, so each program would compile it again.
 */
const PYTHON_PROBE = `
import glob, importlib.util, json, os, py_compile, site, sys
for path in glob.glob(os.path.join(sys.argv[1], '*.py')):
    py_compile.compile(path, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
prefixes = [sys.base_prefix, sys.base_exec_prefix]
pip = importlib.util.find_spec('pip')
print(json.dumps({
    'version': '%d.%d.%d' % sys.version_info[:3],
    'executable': os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable),
    'prefixes': prefixes,
    'packages': site.getsitepackages(prefixes),
    'pip': pip and os.path.dirname(pip.origin),
}))
`;

interface PythonFacts {
  readonly version: string;
  readonly executable: string;
  readonly prefixes: readonly string[];
  /** Folders of installed packages, which may not exist. */
  readonly packages: readonly string[];
  readonly pip: string | null;
}

/** Package folders of other Python versions below /usr. */
const PACKAGES_BELOW_USR = '/usr/{lib,lib64,local/lib,local/lib64}/python3*/{site,dist}-packages';

/** Adds Python to `root`. Returns its version, or `undefined` without Python 3. */
async function addPython(root: RootEntry[], folder: string): Promise<string | undefined> {
  const sdk = join(folder, SDK.python.name);
  await rm(sdk, { recursive: true, force: true });
  await cp(join(SDK.python.folder, SDK.python.name), sdk, { recursive: true });
  const found = await run('python3', ['-I', '-c', PYTHON_PROBE, sdk]).catch(() => undefined);
  if (!found) return undefined;
  bind(root, `${SDK_PYTHONPATH}/${SDK.python.name}`, sdk);
  const { version, executable, prefixes, packages, pip: pipPackage }: PythonFacts = JSON.parse(found.stdout);
  for (const prefix of new Set(prefixes.map((path) => realpathSync(path)))) {
    if (isUnderUsr(prefix)) continue;
    // A prefix this close to the root would expose more of the host than an interpreter.
    if (prefix.split(sep).filter(Boolean).length < 2) return undefined;
    root.push({ operation: 'bind', at: prefix, from: prefix });
  }
  const pip = join(folder, 'pip');
  await writeFile(pip, '#!/bin/sh\nexec python3 -m pip "$@"\n', { mode: 0o755 });
  for (const name of ['pip', 'pip3']) root.push({ operation: 'bind', at: `/runtime/bin/${name}`, from: pip });
  for (const name of ['python', 'python3']) {
    root.push({ operation: 'link', at: `/runtime/bin/${name}`, from: executable });
  }
  if (pipPackage) bind(root, PIP_PACKAGE, pipPackage);
  // Hidden, because an agent that relies on the host's packages would fail on other hosts or with another version.
  const hidden = [...packages, ...(await Array.fromAsync(glob(PACKAGES_BELOW_USR)))];
  const noPackages = join(folder, NO_PACKAGES);
  await mkdir(noPackages, { recursive: true });
  await writeFile(join(noPackages, 'platform.pth'), PYTHON_PATHS);
  for (const at of new Set(hidden.filter((path) => existsSync(path)).map((path) => realpathSync(path)))) {
    root.push({ operation: 'bind', at, from: noPackages });
  }
  // Init takes this file as the sign that the interpreter will wait.
  if (packages.some((path) => existsSync(path))) {
    const standby = join(folder, 'standby.py');
    await writeFile(standby, STANDBY);
    bind(root, '/runtime/standby.py', standby);
  }
  return version;
}

/** Asks the shell, which searches the PATH of the platform. */
async function which(program: string): Promise<string | undefined> {
  const found = await run('sh', ['-c', 'command -v "$1"', 'sh', program]).catch(() => undefined);
  return found && realpathSync(found.stdout.trim());
}
