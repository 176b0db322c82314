import { execFileSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { writeArchive } from '#lib/archive.ts';
import { buildDashboard } from './build-dashboard.ts';
import { buildDocsSite } from './build-docs-site.ts';
import { buildFunctions } from './build-functions.ts';
import { buildRunner } from './build-runner.ts';
import { CDK, linkPackages } from './install-packages.ts';

const ROOT = join(import.meta.dirname, '..');
const PACKAGE = join(ROOT, 'lib/package');
const DIST = join(PACKAGE, 'dist');

/**
 * Builds the contents of the construct's package for `npm pack ./lib/package`: the construct as one CommonJS file,
 * which apps of both module kinds can load, its types, an archive of the function bundles and the documentation, the runner, the
 * dashboard, and three commands, which create the first key,
 * stop the writers, and write a cloud assembly.
 */
export async function buildConstruct(): Promise<void> {
  linkPackages(CDK);
  rmSync(DIST, { recursive: true, force: true });
  const defaults = {
    absWorkingDir: ROOT,
    bundle: true,
    platform: 'node',
    target: 'node22',
    minify: true,
    // Node prints the line that threw an error, which would hide the message.
    lineLimit: 160,
    // The code compares errors by name.
    keepNames: true,
    legalComments: 'none',
    logLevel: 'warning',
  } as const;
  await build({
    ...defaults,
    entryPoints: { platform: join(ROOT, 'lib/platform.ts'), synth: join(ROOT, 'scripts/package-synth.ts') },
    outdir: DIST,
    format: 'cjs',
    // Provided by the app.
    external: ['aws-cdk-lib', 'constructs', 'zod'],
    define: { 'import.meta.dirname': '__dirname' },
  });
  await build({
    ...defaults,
    entryPoints: {
      'owner-key': join(ROOT, 'scripts/package-owner-key.ts'),
      secrets: join(ROOT, 'scripts/package-secrets.ts'),
      workspace: join(ROOT, 'scripts/package-workspace.ts'),
      writers: join(ROOT, 'scripts/package-writers.ts'),
    },
    outdir: DIST,
    outExtension: { '.js': '.mjs' },
    format: 'esm',
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
  });
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', PACKAGE], { cwd: ROOT, stdio: 'inherit' });
  const deployed = join(DIST, 'deployed');
  await buildFunctions(join(deployed, 'functions'));
  await buildRunner(join(DIST, 'runner'));
  // CloudFront compresses files itself, and Vite's manifest is only for tests.
  const filter = (file: string): boolean => !/\.(br|gz|vite)$/.test(file);
  cpSync(buildDashboard(), join(DIST, 'dashboard'), { recursive: true, filter });
  cpSync(await buildDocsSite(), join(deployed, 'docs-site'), { recursive: true, filter });
  writeArchive(join(DIST, 'deployed.zst'), deployed, ['functions', 'docs-site']);
  rmSync(deployed, { recursive: true });
}

if (import.meta.main) await buildConstruct();
