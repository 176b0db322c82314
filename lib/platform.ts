import { type App, Tags, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { routes } from '#core/api.ts';
import type { Stage } from './config.ts';
import { ApiStack } from './stacks/api-stack.ts';
import { DataStack } from './stacks/data-stack.ts';
import { ObservabilityStack } from './stacks/observability-stack.ts';

/** The platform's stacks in `app`, checked by cdk-nag when it is synthesised. */
export function addPlatform(
  app: App,
  { stage, bundles }: { stage: Stage; bundles: string },
): { data: DataStack; api: ApiStack; observability: ObservabilityStack } {
  const data = new DataStack(app, `platform-${stage.name}-data`, {
    stage,
    bundles,
    terminationProtection: stage.keepsData,
  });
  const api = new ApiStack(app, `platform-${stage.name}-api`, { stage, routes, bundles });
  api.addStackDependency(data, 'functions read what the tables hold');
  const observability = new ObservabilityStack(app, `platform-${stage.name}-observability`, { stage });
  Tags.of(app).add('platform:stage', stage.name);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return { data, api, observability };
}
