import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { build, type Metafile, type Plugin } from 'esbuild';
import { mcpTools } from '#core/api/mcp-tools.ts';
import { agentFragments, openApiDocument } from '#core/api/openapi.ts';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';
import { asScripts } from './as-scripts.ts';
import { firstRequest } from './first-request.ts';
import { keptBuild } from './kept-build.ts';

const ROOT = join(import.meta.dirname, '..');
/** Output folder. It has one folder per function, with `index.mjs` and what it loads: `as-scripts.ts`. */
export const BUNDLES = join(ROOT, 'dist/functions');

/**
 * Functions get their credentials from environment variables. The SDK would load these providers to search elsewhere;
 * Lambda's own runtime has them anyway.
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

/** Stands for the output folder in a kept metafile. */
const BUILT = 'built';
/** Everything that a bundle depends on. */
const SOURCES = [
  '{adapters,aws,client,core,functions,lib,local,runner,sdk}/**/*.{js,json,mjs,ts}',
  'scripts/{as-scripts,build-functions,first-request}.ts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
];
const NO_SOURCES = ['**/node_modules/**', '**/dist/**', '**/*.test.ts'];

/**
 * Bundles every Lambda function separately. Dynamic imports (SDK clients, model providers) become files beside its
 * `index.cjs`. Load time depends mainly on the size of `index.cjs` and its static imports. A build takes a minute. If the
 * sources have not changed since the last build, its result is copied instead.
 */
export async function buildFunctions(into = BUNDLES): Promise<Metafile> {
  const sources = globSync(SOURCES, { cwd: ROOT, exclude: NO_SOURCES });
  const kept = await keptBuild('functions', sources, (folder) => buildInto(folder, new Set(sources)));
  rmSync(into, { recursive: true, force: true });
  cpSync(join(kept, 'functions'), into, { recursive: true });
  const metafile = readFileSync(join(kept, 'metafile.json'), 'utf8');
  return JSON.parse(metafile.replaceAll(`"${BUILT}/`, `"${relative(ROOT, into)}/`));
}

/** Writes `functions` and `metafile.json`. Throws if a bundle has a file that is not in {@link SOURCES}. */
async function buildInto(folder: string, sources: ReadonlySet<string>): Promise<void> {
  const functions = join(folder, 'functions');
  const metafile = await bundleFunctions(functions);
  const unknown = Object.keys(metafile.inputs).filter(
    (file) => !/(^|\/)node_modules\/|^[\w-]+:/.test(file) && !sources.has(file),
  );
  if (unknown.length > 0) throw new Error(`SOURCES of build-functions.ts lacks ${unknown.join(', ')}`);
  const text = JSON.stringify(metafile).replaceAll(`"${relative(ROOT, functions)}/`, `"${BUILT}/`);
  writeFileSync(join(folder, 'metafile.json'), text);
}

async function bundleFunctions(into: string): Promise<Metafile> {
  const functions = join(ROOT, 'functions');
  const names = readdirSync(functions, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  mkdirSync(into, { recursive: true });
  const parts = new Parts(into);
  const metafiles = await Promise.all(
    names.map(({ name }) => buildFunction(name, join(functions, name), join(into, name), parts)),
  );
  parts.remove();
  return merged(metafiles);
}

/** Bundles that several functions share, each built once and copied. */
class Parts {
  readonly #folder: string;
  readonly #built = new Map<string, Promise<Metafile>>();

  /** Builds beside the functions, so that source maps do not contain machine-specific paths. */
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

/**
 * Returns the files, bytes and sources that starting a function's `index.cjs` loads: the file and its static imports.
 */
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

const table: readonly Route[] = routes;

/** Functions that serve the rows of others. */
const SERVES: { readonly [fn: string]: readonly string[] } = { 'call-server': ['calls', 'events'] };

async function buildFunction(name: string, folder: string, outdir: string, parts: Parts): Promise<Metafile> {
  const apart = new Map<string, string>();
  const entry = join(folder, 'index.ts');
  const served = SERVES[name] ?? [name];
  const own = [ownRows(served), ownHandlers(served), writtenDocument, writtenTools, bareSettings];
  const plugins = [
    ...own,
    bareRows,
    oneLocale,
    noJsonSchemas,
    bundledApart(name, apart),
    noJit(entry),
    withEntry(entry),
  ];
  if (WRITES_JSON_SCHEMAS.includes(name)) plugins.splice(plugins.indexOf(noJsonSchemas), 1);
  const metafiles = [withoutUnused(await bundle(entry, outdir, plugins))];
  const imported = new Set(
    Object.values(metafiles[0]!.outputs).flatMap(({ imports }) => imports.map(({ path }) => path)),
  );
  for (const [part, file] of apart) {
    if (imported.has(partPath(part))) metafiles.push(await parts.copy(part, file, outdir));
  }
  const request = firstRequest(table.filter(({ fn }) => served.includes(fn)));
  if (request !== undefined) writeFileSync(join(outdir, 'first-request.json'), JSON.stringify(request));
  const all = merged(metafiles);
  for (const [file, bytes] of await asScripts(outdir)) {
    const output = all.outputs[relative(ROOT, join(outdir, file))];
    if (output !== undefined) output.bytes = bytes;
  }
  return all;
}

/**
 * Deletes the outputs that `index.cjs` does not reach: esbuild writes a chunk for every dynamic import, even in code
 * that it removed as unused.
 */
function withoutUnused({ inputs, outputs }: Metafile): Metafile {
  const paths = Object.keys(outputs);
  const used = new Set(paths.filter((path) => path.endsWith('/index.cjs')));
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
    outExtension: { '.js': '.cjs' },
    bundle: true,
    splitting: true,
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    // Keeps paths machine-independent: release.ts builds in a folder whose node_modules is a link.
    preserveSymlinks: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    external: UNUSED_CREDENTIAL_PROVIDERS,
    plugins: [lazyBuiltins, onlyVersions, ...plugins],
    mainFields: ['module', 'main'],
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    logOverride: { 'ignored-bare-import': 'silent' },
  });
  return metafile;
}

/** Matches `import { keyRoutes } from '#core/accounts/keys/routes.ts';` in the route table. */
const ROUTES_IMPORT = /^import \{([^}]+)\} from '([^']+\/routes\.ts)';$/gm;

/** The most frequent beginning of a path, for which the table has a `~`. */
const OF_A_WORKSPACE = '/workspaces/{workspace_id}';
const METHODS: { readonly [letter: string]: Route['method'] } = {
  A: 'PATCH',
  D: 'DELETE',
  G: 'GET',
  P: 'POST',
  U: 'PUT',
};
const LETTERS = Object.fromEntries(Object.entries(METHODS).map(([letter, method]) => [method, letter]));

/** Reads the methods and paths of other rows from a text, which is a third as long as objects. */
const OTHERS = `
const methods = ${JSON.stringify(METHODS)};
function others(text) {
  return text.split(' ').map((row) => ({ method: methods[row[0]], path: row.slice(1).replace('~', '${OF_A_WORKSPACE}') }));
}
`;

const shortRow = ({ method, path }: Route): string => LETTERS[method]! + path.replace(OF_A_WORKSPACE, '~');

/**
 * Reduces the route table for one function: its rows completely, and the methods and paths of all other rows. The
 * schemas of all rows would take a third of a small function's cold start.
 */
const ownRows = (served: readonly string[]): Plugin => ({
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
          parts.push(
            rows.some(({ fn }) => served.includes(fn))
              ? `import { ${name} } from '${file}';`
              : `const ${name} = others('${rows.map(shortRow).join(' ')}');`,
          );
        }
      }
      return { contents: OTHERS + parts.join('\n') + source.replaceAll(ROUTES_IMPORT, ''), loader: 'ts' };
    });
  },
});

/** Matches `import { keyHandlers } from '#core/accounts/keys/handlers.ts';`, also across several lines. */
const IMPORT = /^import \{([^}]+)\} from '[^']+';$/gm;

/**
 * Reduces the table of handlers for one function to its own export and the imports of that. Tree shaking alone would
 * still read the imports of all other handlers, and share code with their dynamic imports.
 */
const ownHandlers = (served: readonly string[]): Plugin => ({
  name: 'own-handlers',
  setup({ onLoad }) {
    const table = join(ROOT, 'core/api/handlers.ts');
    onLoad({ filter: exactly(table) }, () => {
      const [head, ...exported] = readFileSync(table, 'utf8').split(/^export const /m);
      const own = served.map((fn) => {
        const name = fn.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
        const text = exported.find((each) => each.startsWith(`${name} =`));
        if (text === undefined) throw new Error(`${table} has no handlers of ${fn}`);
        return text;
      });
      const words = new Set(own.join('\n').match(/\w+/g));
      const imports = [...head!.matchAll(IMPORT)].filter(([, names]) =>
        names!.match(/\w+/g)!.some((name) => words.has(name)),
      );
      const contents = [...imports.map(([text]) => text), ...own.map((text) => `export const ${text}`)].join('\n');
      return { contents, loader: 'ts' };
    });
  },
});

/**
 * Returns a pattern that matches only this file. Throws if the file has moved, because the plugin would silently do
 * nothing.
 */
function exactly(file: string): RegExp {
  if (!existsSync(file)) throw new Error(`${file} is not there: update the plugins of build-functions.ts`);
  return new RegExp(`^${RegExp.escape(file)}$`);
}

/**
 * Dynamic imports that share libraries with statically loaded code: adapters of `aws/` and `adapters/llm/`, worker threads, and
 * clients. Code splitting would move the shared parts into the code loaded at startup, so each of them is a bundle with its own copy.
 */
const APART =
  /^(\.\.?\/[\w/-]+\.ts$|@ai-sdk\/|@modelcontextprotocol\/|@aws-sdk\/client-|@smithy\/core\/event-streams$)/;

/**
 * Exception: every first call of an agent with secrets needs this import, unless the stage keeps its secrets elsewhere.
 * Sharing the libraries of the DynamoDB client saves about a fifth of that call's CPU time. It adds a kilobyte to what a
 * function loads at its start, so functions that rarely read secrets have a copy of the libraries instead.
 */
const SHARED = { by: ['calls', 'call-server'], file: exactly(join(ROOT, 'aws/secrets/secrets-manager-vault.ts')) };

/** Folders whose dynamic imports are such bundles. What worker threads load is one, as they load nothing else. */
const LOADED_APART = ['aws', 'adapters/llm', 'core/manifest/worker-pool'].map((folder) => join(ROOT, folder));

const partPath = (part: string): string => `./${part}/index.cjs`;

const bundledApart = (name: string, found: Map<string, string>): Plugin => ({
  name: 'bundled-apart',
  setup({ onResolve, resolve }) {
    onResolve({ filter: APART }, async ({ path, kind, resolveDir }) => {
      const isOurs = path.startsWith('.');
      if (kind !== 'dynamic-import' || (isOurs && !LOADED_APART.some((folder) => resolveDir.startsWith(folder))))
        return undefined;
      const { path: file } = await resolve(path, { kind: 'import-statement', resolveDir });
      if (SHARED.by.includes(name) && SHARED.file.test(file)) return undefined;
      const part = (isOurs ? relative(ROOT, file) : path).replaceAll(/\W+/g, '-').replace(/^-|-ts$/g, '');
      found.set(part, file);
      return { path: partPath(part), external: true };
    });
  },
});

/** Makes an entry first import the code that must run before any schema is created. */
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

/**
 * Makes every dynamic import load the entry as well, by way of a module of its own: a module that is also imported
 * statically would be shared. esbuild removes the import of the entry, which has no effect, but then treats code loaded
 * at startup as shared by all of them: one file instead of up to forty, which take 0.25 ms each.
 */
const withEntry = (entry: string): Plugin => ({
  name: 'with-entry',
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /^[#.].*\.ts$/ }, async ({ path, kind, importer, resolveDir }) => {
      if (kind !== 'dynamic-import') return undefined;
      const resolved = await resolve(path, { kind: 'import-statement', importer, resolveDir });
      // The path is in the source map, which names no machine.
      return resolved.external ? resolved : { path: relative(ROOT, resolved.path), namespace: 'late' };
    });
    onLoad({ filter: /./, namespace: 'late' }, ({ path }) => ({
      contents: `import ${JSON.stringify(entry)}; export * from ${JSON.stringify(join(ROOT, path))};`,
      resolveDir: dirname(join(ROOT, path)),
    }));
  },
});

/**
 * Libraries that import all of zod include its error messages in every language, two thirds of its size. Keeps only
 * English.
 */
const oneLocale: Plugin = {
  name: 'one-locale',
  setup({ onLoad }) {
    onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: `export { default as en } from './en.js';`,
    }));
  },
};

/** A client of the AWS SDK imports its whole `package.json`, of which it sends the version. */
const onlyVersions: Plugin = {
  name: 'only-versions',
  setup({ onLoad }) {
    onLoad({ filter: /\/@aws-sdk\/client-[\w-]+\/package\.json$/ }, ({ path }) => {
      const { version } = JSON.parse(readFileSync(path, 'utf8'));
      return { contents: JSON.stringify({ version }), loader: 'json' };
    });
  },
};

/** Functions that convert schemas of zod to JSON Schema: `meta` serves those of the manifest's editor. */
const WRITES_JSON_SCHEMAS = ['meta'];

/** Every schema of zod refers to its conversion to JSON Schema, which takes 18 KB. The conversion throws instead. */
const noJsonSchemas: Plugin = {
  name: 'no-json-schemas',
  setup({ onLoad }) {
    onLoad({ filter: /\/zod\/v4\/core\/(json-schema-processors|to-json-schema)\.js$/ }, ({ path }) => {
      const exported = readFileSync(path, 'utf8').matchAll(/^export (?:const|function) (\w+)/gm);
      // Those that create a method are called for any library that asks for the schema's standard interface.
      const names = [...exported].map(([, name]) => `${name!.startsWith('create') ? 'method' : 'absent'} as ${name}`);
      const message = 'Name this function in WRITES_JSON_SCHEMAS of build-functions.ts.';
      const contents = `
        function absent() { throw new Error('${message}'); }
        function method() { return absent; }
        export { ${names} };`;
      return { contents };
    });
  },
};

/** The AWS SDK imports `http` on the first request without TLS, as to an emulator. */
const LATE_BUILTIN = /await import\("(node:[\w/]+)"\)/g;

/** Node modules that few requests use, and that no other module loads. They take 5 ms of a start. */
const LATE_BUILTINS = /^(node:)?(dns\/promises|fs|fs\/promises|stream\/web|zlib)$/;

/** Proxy for a function or class of a module until it is called, constructed, compared or accessed. */
const LATE = `
const $late = (name) => new Proxy(function () {}, {
  apply: (_, self, given) => Reflect.apply($of(name), self, given),
  construct: (_, given, target) => Reflect.construct($of(name), given, target),
  get: (_, member) => $of(name)[member],
});`;

/**
 * An ES import of a Node module reads all of its exports, some of which Node loads lazily: `http` then loads all of
 * `fetch`. This plugin reads only the exports that are used, and those of {@link LATE_BUILTINS} on first use.
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

/** Removes the descriptions of settings for `docs/settings.md`, which are the last argument of each. */
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

/** A literal text of a schema, as the formatter writes it. */
const DESCRIBED = /\s*\.describe\(\s*(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"),?\s*\)/g;

/** Removes the texts of rows and their schemas, which only the OpenAPI document shows. */
const bareRows: Plugin = {
  name: 'bare-rows',
  setup({ onLoad }) {
    onLoad({ filter: /\/core\/.*\/routes\.ts$/ }, ({ path, pluginData }) => {
      if (path === join(ROOT, 'core/api/routes.ts') || pluginData !== undefined) return undefined;
      const source = readFileSync(path, 'utf8');
      const contents = source.replaceAll(DESCRIBED, '').replaceAll(/^( +summary:) *(['"]).*\2,$/gm, "$1 '',");
      return { contents, loader: 'ts', resolveDir: dirname(path) };
    });
  },
};

/** Generates the OpenAPI document at build time, because no function has all rows at run time. */
const writtenDocument: Plugin = {
  name: 'written-document',
  setup({ onLoad }) {
    onLoad({ filter: exactly(join(ROOT, 'core/api/openapi.ts')) }, () => ({
      contents: `export const openApiDocument = () => (${JSON.stringify(openApiDocument())});`,
    }));
    // A module of its own: the function that serves the documents of agents would load the whole one with it.
    onLoad({ filter: exactly(join(ROOT, 'core/api/agent-document/fragments.ts')) }, () => ({
      contents: `export const fragments = () => (${JSON.stringify(agentFragments())});`,
    }));
  },
};

/** Writes the tools of MCP at build time, for the same reason. */
const writtenTools: Plugin = {
  name: 'written-tools',
  setup({ onLoad }) {
    onLoad({ filter: exactly(join(ROOT, 'core/api/mcp-tools.ts')) }, () => ({
      contents: `const tools = ${JSON.stringify(mcpTools())}; export const mcpTools = () => tools;`,
    }));
  },
};

if (import.meta.main) await buildFunctions();
