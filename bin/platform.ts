import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { App } from 'aws-cdk-lib';
import type { Stage } from '#lib/config.ts';
import { addPlatform } from '#lib/platform.ts';
import { BUNDLES, buildFunctions } from '../scripts/build-functions.ts';

const app = new App();
const name = String(app.node.tryGetContext('stage') ?? 'dev');
const file = join(import.meta.dirname, '../stages', `${name}.ts`);
if (!/^[a-z][a-z0-9]*$/.test(name) || !existsSync(file)) {
  throw new Error(`there is no stage "${name}": -c stage=... names a file of stages/`);
}
const { stage }: { stage: Stage } = await import(file);
await buildFunctions();
addPlatform(app, { stage, bundles: BUNDLES });
