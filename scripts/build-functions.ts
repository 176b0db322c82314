import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { build, type Metafile, type Plugin } from 'esbuild';
import { openApiDocument } from '#core/api/openapi.ts';
import type { Route } from '#core/http/route.ts';

const ROOT = join(import.meta.dirname, '..');
/** One folder per function, with `index.mjs`, its parts and source maps. */
export const BUNDLES = join(ROOT, 'dist/functions');

/** Some CommonJS packages call `require`, which an ES module does not have. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/**
 * A function finds its credentials in its environment. The SDK would load these to look elsewhere, so they are never
 * loaded; Lambda's own runtime has them all the same.
 */
const UNUSED_CREDENTIAL_PROVIDERS = [
  '@aws-sdk/credential-provider-http',
  '@aws-sdk/credential-provider-ini',
  '@aws-sdk/credential-provider-login',
  '@aws-sdk/credential-provider-process',
  '@aws-sdk/credential-provider-sso',
  '@aws-sdk/credential-provider-web-identity',
  '@smithy/credential-provider-imds',
];

/**
 * Bundles every Lambda function separately. Dynamic imports (SDK clients, model providers) become files beside its
 * `index.mjs`. Load time depends above all on the bytes of `index.mjs` and its static imports.
 */
export async function buildFunctions(into = BUNDLES): Promise<Metafile> {
  const functions = join(ROOT, 'functions');
  const names = readdirSync(functions, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into, { recursive: true });
  const parts = new Parts(into);
  const metafiles = await Promise.all(
    names.map(({ name }) => buildFunction(name, join(functions, name), join(into, name), parts)),
  );
  parts.remove();
  return merged(metafiles);
}

/** Bundles that several functions contain, each built once and copied. */
class Parts {
  readonly #folder: string;
  readonly #built = new Map<string, Promise<Metafile>>();

  /** Builds beside the functions, so that source maps do not depend on the machine's folders. */
  constructor(into: string) {
    this.#folder = mkdtempSync(`${into}-parts-`);
  }

  async copy(part: string, file: string, into: string): Promise<Metafile> {
    const built = this.#built.get(file) ?? bundle(file, join(this.#folder, part), [oneLocale]);
    this.#built.set(file, built);
    await built;
    cpSync(join(this.#folder, part), join(into, part), { recursive: true });
    return built;
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

const merged = (metafiles: readonly Metafile[]): Metafile => ({
  inputs: Object.assign({}, ...metafiles.map(({ inputs }) => inputs)),
  outputs: Object.assign({}, ...metafiles.map(({ outputs }) => outputs)),
});

/** Files, bytes and sources that importing a function's `index.mjs` loads: the file and its static imports. */
export function loadedAtStart(
  { outputs }: Metafile,
  file: string,
): { files: number; bytes: number; sources: string[] } {
  const loaded = new Set<string>();
  const load = (path: string) => {
    if (loaded.has(path)) return;
    loaded.add(path);
    for (const { kind, path: part } of outputs[path]!.imports)
      if (kind === 'import-statement' && part in outputs) load(part);
  };
  load(relative(ROOT, file));
  const parts = [...loaded].map((path) => outputs[path]!);
  return {
    files: loaded.size,
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    sources: parts.flatMap(({ inputs }) => Object.keys(inputs)),
  };
}

async function buildFunction(name: string, folder: string, outdir: string, parts: Parts): Promise<Metafile> {
  const apart = new Map<string, string>();
  const entry = join(folder, 'index.ts');
  const own = [ownRows(name), ownHandlers(name), writtenDocument, bareSettings];
  const plugins = [...own, oneLocale, bundledApart(apart), noJit(entry), withEntry(entry)];
  const metafiles = [withoutUnused(await bundle(entry, outdir, plugins))];
  const imported = new Set(
    Object.values(metafiles[0]!.outputs).flatMap(({ imports }) => imports.map(({ path }) => path)),
  );
  for (const [part, file] of apart) {
    if (imported.has(partPath(part))) metafiles.push(await parts.copy(part, file, outdir));
  }
  return merged(metafiles);
}

/**
 * Deletes the outputs that `index.mjs` does not reach: esbuild writes a chunk for every dynamic import that it has read, also
 * for those in code that it dropped as unused.
 */
function withoutUnused({ inputs, outputs }: Metafile): Metafile {
  const paths = Object.keys(outputs);
  const used = new Set(paths.filter((path) => path.endsWith('/index.mjs')));
  for (const path of used) for (const { path: part } of outputs[path]!.imports) if (part in outputs) used.add(part);
  const isUsed = (path: string) => used.has(path.replace(/\.map$/, ''));
  for (const path of paths) if (!isUsed(path)) rmSync(join(ROOT, path));
  return { inputs, outputs: Object.fromEntries(Object.entries(outputs).filter(([path]) => isUsed(path))) };
}

async function bundle(entry: string, outdir: string, plugins: Plugin[]): Promise<Metafile> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [{ in: entry, out: 'index' }],
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    // For the same reason, as release.ts builds where node_modules is a link.
    preserveSymlinks: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    external: UNUSED_CREDENTIAL_PROVIDERS,
    plugins: [lazyBuiltins, ...plugins],
    mainFields: ['module', 'main'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    logOverride: { 'ignored-bare-import': 'silent' },
  });
  return metafile;
}

/** `import { keyRoutes } from '#core/accounts/keys/routes.ts';` in the route table. */
const ROUTES_IMPORT = /^import \{([^}]+)\} from '([^']+\/routes\.ts)';$/gm;

/** Rows of methods and paths. Written out with the names of their members they would be twice as long. */
const OTHERS = `
function others(text) {
  return [...text.matchAll(/(\\S+) (\\S+)/g)].map(([, method, path]) => ({ method, path }));
}
`;

/**
 * The route table as one function needs it: its own rows in full; of all other rows only what tells paths and methods
 * apart. The schemas of all rows are a third of a small function's cold start.
 */
const ownRows = (fn: string): Plugin => ({
  name: 'own-rows',
  setup({ onLoad }) {
    const table = join(ROOT, 'core/api/routes.ts');
    onLoad({ filter: exactly(table) }, async () => {
      const source = readFileSync(table, 'utf8');
      const parts: string[] = [];
      for (const [, names, file] of source.matchAll(ROUTES_IMPORT)) {
        const exported: Record<string, readonly Route[]> = await import(
          file!.startsWith('.') ? join(dirname(table), file!) : file!
        );
        for (const name of names!.split(',').map((each) => each.trim())) {
          if (name === '') continue;
          const rows = exported[name]!;
          const others = rows.map(({ method, path }) => `${method} ${path}`).join(' ');
          parts.push(
            rows.some((row) => row.fn === fn)
              ? `import { ${name} } from '${file}';`
              : `const ${name} = others('${others}');`,
          );
        }
      }
      return { contents: parts.join('\n') + OTHERS + source.replaceAll(ROUTES_IMPORT, ''), loader: 'ts' };
    });
  },
});

/** `import { keyHandlers } from '#core/accounts/keys/handlers.ts';`, also over several lines. */
const IMPORT = /^import \{([^}]+)\} from '[^']+';$/gm;

/**
 * The table of handlers as one function needs it: its own export, and what that imports. Tree shaking alone would still
 * read the imports of all other handlers, and share code with what these load dynamically.
 */
const ownHandlers = (fn: string): Plugin => ({
  name: 'own-handlers',
  setup({ onLoad }) {
    const table = join(ROOT, 'core/api/handlers.ts');
    onLoad({ filter: exactly(table) }, () => {
      const [head, ...exported] = readFileSync(table, 'utf8').split(/^export const /m);
      const name = fn.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
      const own = exported.find((text) => text.startsWith(`${name} =`));
      if (own === undefined) throw new Error(`${table} has no handlers of ${fn}`);
      const words = new Set(own.match(/\w+/g));
      const imports = [...head!.matchAll(IMPORT)].filter(([, names]) =>
        names!.match(/\w+/g)!.some((name) => words.has(name)),
      );
      return { contents: [...imports.map(([text]) => text), `export const ${own}`].join('\n'), loader: 'ts' };
    });
  },
});

/** Matches this one file. Throws if the file has moved: the plugin would silently do nothing. */
function exactly(file: string): RegExp {
  if (!existsSync(file)) throw new Error(`${file} is not there: update the plugins of build-functions.ts`);
  return new RegExp(`^${RegExp.escape(file)}$`);
}

/**
 * Dynamic imports that share libraries with the code that is always loaded: adapters of `aws/` and `llm/`, and clients. Splitting would
 * move what they need of a library into the part that is always loaded, so each is a bundle with its own copy.
 */
const APART =
  /^(\.\.?\/[\w/-]+\.ts$|@ai-sdk\/|@modelcontextprotocol\/|@aws-sdk\/client-|@smithy\/core\/event-streams$)/;

/**
 * Every first call of an agent with secrets needs this one: with the libraries of DynamoDB's client, which are there, it takes 30 ms of
 * processor time less than with its own.
 */
const SHARING = './secrets-manager-vault.ts';

const ADAPTERS = [join(ROOT, 'aws'), join(ROOT, 'llm')];

const partPath = (part: string): string => `./${part}/index.mjs`;

const bundledApart = (found: Map<string, string>): Plugin => ({
  name: 'bundled-apart',
  setup({ onResolve, resolve }) {
    onResolve({ filter: APART }, async ({ path, kind, resolveDir }) => {
      const isOurs = path.startsWith('.');
      if (path === SHARING) return undefined;
      if (kind !== 'dynamic-import' || (isOurs && !ADAPTERS.some((folder) => resolveDir.startsWith(folder))))
        return undefined;
      const { path: file } = await resolve(path, { kind: 'import-statement', resolveDir });
      const part = (isOurs ? relative(ROOT, file) : path).replaceAll(/\W+/g, '-').replace(/^-|-ts$/g, '');
      found.set(part, file);
      return { path: partPath(part), external: true };
    });
  },
});

/** Has an entry import first what has to run before any schema is made. */
const noJit = (entry: string): Plugin => ({
  name: 'no-jit',
  setup({ onLoad }) {
    onLoad({ filter: exactly(entry) }, () => ({
      contents: `import '../no-jit.ts';\n${readFileSync(entry, 'utf8')}`,
      loader: 'ts',
      resolveDir: dirname(entry),
    }));
  },
});

/** What it imports is loaded in a thread, too, without the function. */
const OF_THREADS = join(ROOT, 'core/manifest/worker-pool/');

/**
 * Lets what is imported dynamically import the entry. esbuild drops that import, which has no effect, but then counts what a function
 * loads at its start as shared by all of them: one file instead of up to forty, which take a quarter of a millisecond each.
 */
const withEntry = (entry: string): Plugin => ({
  name: 'with-entry',
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /^[#.].*\.ts$/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
      if (kind !== 'dynamic-import' || importer.startsWith(OF_THREADS) || pluginData === withEntry) return undefined;
      return { ...(await resolve(path, { kind, resolveDir, pluginData: withEntry })), pluginData: withEntry };
    });
    onLoad({ filter: /\.ts$/ }, ({ path, pluginData }) =>
      pluginData === withEntry
        ? { contents: `${readFileSync(path, 'utf8')}\nimport ${JSON.stringify(entry)};`, loader: 'ts' }
        : undefined,
    );
  },
});

/** Libraries that import all of zod get its errors in every language, two thirds of its size. Keep English only. */
const oneLocale: Plugin = {
  name: 'one-locale',
  setup({ onLoad }) {
    onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: `export { default as en } from './en.js';`,
    }));
  },
};

/** The AWS SDK imports `http` when it first sends to an address without TLS, as an emulator's. */
const LATE_BUILTIN = /await import\("(node:[\w/]+)"\)/g;

/** Modules of Node that few requests use, and nothing else of Node needs: 5 ms of a start. */
const LATE_BUILTINS = /^(node:)?(dns\/promises|fs|fs\/promises|stream\/web|zlib)$/;

/** What stands for a function or class of a module until it is called, made, compared or asked for a member. */
const LATE = `
const $late = (name) => new Proxy(function () {}, {
  apply: (_, self, given) => Reflect.apply($of(name), self, given),
  construct: (_, given, target) => Reflect.construct($of(name), given, target),
  get: (_, member) => $of(name)[member],
});`;

/**
 * An ES import of a Node module reads all of its exports, and Node loads some of them lazily: `http` then loads all of `fetch`.
 * This reads only the exports that are used, and a function or class of {@link LATE_BUILTINS} when it is.
 */
const lazyBuiltins: Plugin = {
  name: 'lazy-builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[\w:/]+$/ }, ({ path, kind }) =>
      kind === 'import-statement' && isBuiltin(path) ? { path, namespace: 'builtin', sideEffects: false } : undefined,
    );
    onLoad({ filter: /\/node-http-handler\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll(LATE_BUILTIN, 'process.getBuiltinModule("$1")'),
    }));
    onLoad({ filter: /./, namespace: 'builtin' }, async ({ path }) => {
      const { default: all, ...exported } = await import(path);
      const isLate = (value: unknown) => LATE_BUILTINS.test(path) && typeof value === 'function';
      return {
        contents: [
          `const $module = () => process.getBuiltinModule('${path}');`,
          'const $of = (name) => $module()[name];',
          LATE,
          'export default /* @__PURE__ */ $module();',
          ...Object.entries(exported).map(
            ([name, value]) => `export const ${name} = /* @__PURE__ */ ${isLate(value) ? '$late' : '$of'}('${name}');`,
          ),
        ].join('\n'),
      };
    });
  },
};

/** Settings without the sentences of `docs/settings.md`, which are the last argument of each. */
const bareSettings: Plugin = {
  name: 'bare-settings',
  setup({ onLoad }) {
    for (const file of ['core/base/config.ts', 'aws/config.ts'].map((path) => join(ROOT, path))) {
      onLoad({ filter: exactly(file) }, () => {
        const source = readFileSync(file, 'utf8');
        const contents = source.replaceAll(/^ {4}(['"]).*\1,\n {2}\),$/gm, "    '',\n  ),");
        if (contents === source) throw new Error(`${file} has no sentences of settings: update build-functions.ts`);
        return { contents, loader: 'ts', resolveDir: dirname(file) };
      });
    }
  },
};

/** The API's document, generated at build time: at run time no function has all rows. */
const writtenDocument: Plugin = {
  name: 'written-document',
  setup({ onLoad }) {
    onLoad({ filter: exactly(join(ROOT, 'core/api/openapi.ts')) }, () => ({
      contents: `export const openApiDocument = () => (${JSON.stringify(openApiDocument())});`,
    }));
  },
};

if (import.meta.main) await buildFunctions();
