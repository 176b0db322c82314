import { App } from 'aws-cdk-lib';
import { loadStage } from '#lib/config.ts';
import { addPlatform } from '#lib/platform.ts';
import { BUNDLES, buildFunctions } from '../scripts/build-functions.ts';
import { buildRunner, RUNNER_CONTEXT } from '../scripts/build-runner.ts';

const app = new App();
const stage = await loadStage(String(app.node.tryGetContext('stage') ?? 'dev'));
// A second or two each time; so what is deployed is never older than its source.
await buildFunctions();
await buildRunner();
addPlatform(app, { stage, bundles: BUNDLES, runnerContext: RUNNER_CONTEXT });
