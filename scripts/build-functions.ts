import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, type Metafile } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
/** One folder a function, each with `index.mjs`, its parts and source maps; beside them `meta.json`, esbuild's metafile. */
export const BUNDLES = join(ROOT, 'dist/functions');
const META_FILE = join(BUNDLES, 'meta.json');

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
 * Bundles every Lambda function, each by itself: what it imports only when it is needed (the providers of language
 * models) becomes files beside its `index.mjs`, which are in its folder and nobody else's.
 */
export async function buildFunctions(): Promise<void> {
  const functions = join(ROOT, 'functions');
  const names = readdirSync(functions, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  rmSync(BUNDLES, { recursive: true, force: true });
  const metafiles = await Promise.all(
    names.map(({ name }) => buildFunction(join(functions, name), join(BUNDLES, name))),
  );
  writeFileSync(
    META_FILE,
    JSON.stringify({
      inputs: Object.assign({}, ...metafiles.map(({ inputs }) => inputs)),
      outputs: Object.assign({}, ...metafiles.map(({ outputs }) => outputs)),
    }),
  );
}

async function buildFunction(folder: string, outdir: string): Promise<Metafile> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [join(folder, 'index.ts')],
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    external: UNUSED_CREDENTIAL_PROVIDERS,
    mainFields: ['module', 'main'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  });
  return metafile;
}

if (import.meta.main) await buildFunctions();
