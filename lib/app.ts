import { type App, PERMISSIONS_BOUNDARY_CONTEXT_KEY, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import type { StageFile } from './config.ts';
import { AgentPlatform, type BuildArtifacts } from './platform.ts';

/** The platform of a stage file in an app of its own, checked by cdk-nag when it is synthesised. */
export function addStage(app: App, stage: StageFile, built?: Partial<BuildArtifacts>): AgentPlatform {
  const { bootstrapQualifier, permissionsBoundary, ...props } = stage;
  // What `cdk bootstrap` decided for the account: the CDK reads both from the context of the app.
  if (bootstrapQualifier) app.node.setContext('@aws-cdk/core:bootstrapQualifier', bootstrapQualifier);
  if (permissionsBoundary) app.node.setContext(PERMISSIONS_BOUNDARY_CONTEXT_KEY, { name: permissionsBoundary });
  const platform = new AgentPlatform(app, 'platform', props, {
    ...built,
    firstKey: `npm run aws:key -- ${stage.name}`,
  });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return platform;
}
