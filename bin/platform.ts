import { App } from 'aws-cdk-lib';
import { loadStage } from '#lib/config.ts';
import { addPlatform } from '#lib/platform.ts';
import { BUNDLES, buildFunctions } from '../scripts/build-functions.ts';
import { buildRunner, RUNNER_CONTEXT } from '../scripts/build-runner.ts';

const app = new App();
const stage = await loadStage(String(app.node.tryGetContext('stage') ?? 'dev'));
// Built each time, in a second or two, so that bundles are never older than their sources.
await buildFunctions();
await buildRunner();
addPlatform(app, { stage, bundles: BUNDLES, runnerContext: RUNNER_CONTEXT });
