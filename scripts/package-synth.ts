#!/usr/bin/env node
/**
 * `agent-platform-synth <props.json> <folder>`: writes the cloud assembly of a platform, which `cdk deploy --app <folder>`
 * deploys, for teams whose infrastructure is not written in TypeScript. The JSON has the members of a stage file.
 */
import { readFileSync } from 'node:fs';
import { App, PERMISSIONS_BOUNDARY_CONTEXT_KEY } from 'aws-cdk-lib';
import { defineStage } from '#lib/config.ts';
import { AgentPlatform } from '#lib/platform.ts';
import cdkJson from '../cdk.json' with { type: 'json' };

function main([file, outdir]: readonly string[]): void {
  if (file === undefined || outdir === undefined) {
    throw new Error('Name the file with the props and the new folder: agent-platform-synth platform.json assembly');
  }
  const { bootstrapQualifier, permissionsBoundary, ...props } = defineStage(JSON.parse(readFileSync(file, 'utf8')));
  const context = {
    ...cdkJson.context,
    ...(bootstrapQualifier && { '@aws-cdk/core:bootstrapQualifier': bootstrapQualifier }),
    ...(permissionsBoundary && { [PERMISSIONS_BOUNDARY_CONTEXT_KEY]: { name: permissionsBoundary } }),
  };
  // Traces and paths of this machine would get into the assembly.
  const app = new App({ outdir, context, stackTraces: false, treeMetadata: false });
  new AgentPlatform(app, 'platform', props);
  const { stacks } = app.synth();
  console.log(stacks.map(({ stackName }) => stackName).join('\n'));
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
