#!/usr/bin/env node
/**
 * `agent-platform-synth <props.json> <folder>`: writes the cloud assembly of a platform, which `cdk deploy --app <folder>`
 * deploys, for teams whose infrastructure is not written in TypeScript. The JSON has the members of a stage file.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
    'aws:cdk:disable-creation-stack-traces': true,
  };
  const app = new App({ outdir, context, stackTraces: false, treeMetadata: false });
  new AgentPlatform(app, 'platform', props);
  const { stacks } = app.synth();
  // Acknowledgements keep their traces, which have paths of this machine.
  for (const name of readdirSync(outdir).filter((each) => each.endsWith('.metadata.json'))) {
    const path = join(outdir, name);
    const metadata = JSON.parse(readFileSync(path, 'utf8'), (key, value) => (key === 'trace' ? undefined : value));
    writeFileSync(path, JSON.stringify(metadata));
  }
  console.log(stacks.map(({ stackName }) => stackName).join('\n'));
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
