import { type App, PERMISSIONS_BOUNDARY_CONTEXT_KEY, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import type { StageFile } from './config.ts';
import { AgentPlatform, type BuildArtifacts } from './platform.ts';

/** Adds the platform of a stage file to an app of its own, checked by cdk-nag during synthesis. */
export function addStage(app: App, stage: StageFile, built?: Partial<BuildArtifacts>): AgentPlatform {
  const { bootstrapQualifier, permissionsBoundary, ...props } = stage;
  // Settings of `cdk bootstrap` for the account, which the CDK reads from the app's context.
  if (bootstrapQualifier) app.node.setContext('@aws-cdk/core:bootstrapQualifier', bootstrapQualifier);
  if (permissionsBoundary) app.node.setContext(PERMISSIONS_BOUNDARY_CONTEXT_KEY, { name: permissionsBoundary });
  const platform = new AgentPlatform(app, 'platform', props, {
    ...built,
    firstKey: `npm run aws:key -- ${stage.name}`,
  });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return platform;
}
