import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
/** One folder a function, each with `index.mjs` and its source map; beside them `meta.json`, esbuild's metafile. */
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

/** Bundles every Lambda function, in one run. */
export async function buildFunctions(): Promise<void> {
  const functions = join(ROOT, 'functions');
  const names = readdirSync(functions, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  rmSync(BUNDLES, { recursive: true, force: true });
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: names.map(({ name }) => ({ in: join(functions, name, 'index.ts'), out: `${name}/index` })),
    outdir: BUNDLES,
    outExtension: { '.js': '.mjs' },
    bundle: true,
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
  writeFileSync(META_FILE, JSON.stringify(metafile));
}

if (import.meta.main) await buildFunctions();
