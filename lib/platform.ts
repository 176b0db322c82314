import { type App, PERMISSIONS_BOUNDARY_CONTEXT_KEY, Tags, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { routes } from '#core/api/routes.ts';
import type { Stage } from './config.ts';
import { ApiStack } from './stacks/api-stack.ts';
import { ComputeStack } from './stacks/compute-stack.ts';
import { DataStack } from './stacks/data-stack.ts';
import { MicrovmStack } from './stacks/microvm-stack.ts';
import { ObservabilityStack } from './stacks/observability-stack.ts';
import { SchedulesStack } from './stacks/schedules-stack.ts';
import { ServicesStack } from './stacks/services-stack.ts';

/** The platform's stacks in `app`, checked by cdk-nag when it is synthesised. */
export function addPlatform(
  app: App,
  { stage, bundles, runnerContext }: { stage: Stage; bundles: string; runnerContext: string },
): {
  data: DataStack;
  schedules: SchedulesStack;
  api: ApiStack;
  observability: ObservabilityStack;
  compute?: ComputeStack | MicrovmStack;
  services?: ServicesStack;
} {
  setBootstrap(app, stage);
  const data = new DataStack(app, `platform-${stage.name}-data`, {
    stage,
    bundles,
    terminationProtection: stage.keepsData,
  });
  const schedules = new SchedulesStack(app, `platform-${stage.name}-schedules`, { stage });
  const api = new ApiStack(app, `platform-${stage.name}-api`, { stage, routes, bundles });
  api.addStackDependency(data, 'functions read what the tables hold');
  api.addStackDependency(schedules, 'a function reads the queue');
  const sandbox = addSandbox(app, { stage, bundles, runnerContext });
  const services = addServices(app, api, { stage, bundles, runnerContext });
  const observability = new ObservabilityStack(app, `platform-${stage.name}-observability`, { stage });
  observability.addStackDependency(api, 'it reads the logs of its functions');
  if (sandbox.compute) observability.addStackDependency(sandbox.compute, "it reads its keeper's log");
  if (services) observability.addStackDependency(services, "it reads its keeper's log");
  Tags.of(app).add('platform:stage', stage.name);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return { data, schedules, api, observability, ...sandbox, ...(services && { services }) };
}

/** What `cdk bootstrap` decided for the account: the CDK reads both from the context of the app. */
function setBootstrap(app: App, { bootstrapQualifier, permissionsBoundary }: Stage): void {
  if (bootstrapQualifier) app.node.setContext('@aws-cdk/core:bootstrapQualifier', bootstrapQualifier);
  if (permissionsBoundary) app.node.setContext(PERMISSIONS_BOUNDARY_CONTEXT_KEY, { name: permissionsBoundary });
}

function addSandbox(
  app: App,
  { stage, ...folders }: { stage: Stage; bundles: string; runnerContext: string },
): { compute?: ComputeStack | MicrovmStack } {
  const { sandbox: settings } = stage;
  const id = `platform-${stage.name}-compute`;
  if (settings.kind === 'fargate') return { compute: new ComputeStack(app, id, { stage, settings, ...folders }) };
  if (settings.kind === 'microvm') return { compute: new MicrovmStack(app, id, { stage, settings, ...folders }) };
  return {};
}

function addServices(
  app: App,
  api: ApiStack,
  { stage, ...folders }: { stage: Stage; bundles: string; runnerContext: string },
): ServicesStack | undefined {
  const { services: settings } = stage;
  if (settings.kind === 'off') return undefined;
  const services = new ServicesStack(app, `platform-${stage.name}-services`, {
    stage,
    settings,
    ...folders,
    // Whoever deletes it ends what runs in it.
    terminationProtection: stage.keepsData,
  });
  services.addStackDependency(api, "instances ask the API, whose id the stack's export has");
  return services;
}
