import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
/** Build context of the runner image: all files that are not downloaded. */
export const RUNNER_CONTEXT = join(ROOT, 'dist/runner');

/** yauzl is CommonJS and calls `require`, which an ES module does not have. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/**
 * Builds the runner as one file, the Perl programs in their own folder, and the platform's packages for agents into
 * `folder`.
 */
export async function buildRunner(folder = RUNNER_CONTEXT): Promise<void> {
  const runner = join(ROOT, 'runner');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'sdk'), { recursive: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['main', 'lay-out-image'].map((name) => join(runner, `${name}.ts`)),
    outdir: join(folder, 'runner'),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    mainFields: ['module', 'main'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    logLevel: 'warning',
  });
  cpSync(join(runner, 'perl'), join(folder, 'perl'), { recursive: true, filter: (path) => /perl$|\.pl$/.test(path) });
  cpSync(join(runner, 'Dockerfile'), join(folder, 'Dockerfile'));
  cpSync(join(ROOT, 'sdk'), join(folder, 'sdk'), {
    recursive: true,
    filter: (path) => !/^(__pycache__|README\.md|tsconfig\.json|pyproject\.toml)$/.test(basename(path)),
  });
}

if (import.meta.main) await buildRunner();
