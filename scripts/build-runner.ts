import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
/** The build context of the runner's image: everything that the image does not take from elsewhere. */
export const RUNNER_CONTEXT = join(ROOT, 'dist/runner');

/** yauzl is CommonJS and calls `require`, which an ES module does not have. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/** The runner as one file, the Perl programs beside it, and the platform's packages for agents. */
export async function buildRunner(): Promise<void> {
  const runner = join(ROOT, 'runner');
  rmSync(RUNNER_CONTEXT, { recursive: true, force: true });
  mkdirSync(join(RUNNER_CONTEXT, 'sdk'), { recursive: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['main', 'lay-out-image'].map((name) => join(runner, `${name}.ts`)),
    outdir: join(RUNNER_CONTEXT, 'runner'),
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
  for (const name of ['inside.pl', 'launcher.pl']) cpSync(join(runner, name), join(RUNNER_CONTEXT, 'runner', name));
  cpSync(join(runner, 'Dockerfile'), join(RUNNER_CONTEXT, 'Dockerfile'));
  cpSync(join(ROOT, 'sdk'), join(RUNNER_CONTEXT, 'sdk'), {
    recursive: true,
    filter: (path) => !/^(__pycache__|README\.md|tsconfig\.json|pyproject\.toml)$/.test(basename(path)),
  });
}

if (import.meta.main) await buildRunner();
