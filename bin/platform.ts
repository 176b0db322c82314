import { App } from 'aws-cdk-lib';
import { addStage } from '#lib/app.ts';
import { loadStage } from '#lib/config.ts';
import { buildDashboard } from '../scripts/build-dashboard.ts';
import { buildDocsSite } from '../scripts/build-docs-site.ts';
import { buildFunctions } from '../scripts/build-functions.ts';
import { buildRunner } from '../scripts/build-runner.ts';

const app = new App();
const stage = await loadStage(String(app.node.tryGetContext('stage') ?? 'dev'));
// Builds each time, in a second or two, so that bundles are never older than their sources.
await buildFunctions();
await buildRunner();
addStage(app, stage, stage.web.kind === 'off' ? {} : { dashboard: buildDashboard(), docs: await buildDocsSite() });
