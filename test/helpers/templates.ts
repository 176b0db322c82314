import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  App,
  CloudFormationValidatePlugin,
  type IPolicyValidationContext,
  type PolicyValidationPluginReport,
  type Stack,
  Validations,
} from 'aws-cdk-lib';
import { CloudFormationStackArtifact } from 'aws-cdk-lib/cx-api';
import { BACKGROUND_FUNCTIONS } from '#core/api/background.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { addStage } from '#lib/app.ts';
import type { StageFile } from '#lib/config.ts';
import { MICROVM_FUNCTIONS, POOL_FUNCTIONS } from '#lib/functions.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { TEST_ACCOUNT, TEST_REGION } from './aws-account.ts';
import { temporaryFolder } from './temporary-folder.ts';

export { TEST_ACCOUNT, TEST_REGION };

export interface Resource {
  readonly Type: string;
  // biome-ignore lint/suspicious/noExplicitAny: what CloudFormation knows of a resource is not typed here.
  readonly Properties: any;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
  readonly DependsOn?: string[];
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>;
  readonly Outputs?: unknown;
}

export interface SynthesisedStack {
  readonly name: string;
  readonly template: Template;
  /** Names of the stacks that must be deployed first. */
  readonly after: readonly string[];
  readonly terminationProtection: boolean;
}

export interface Synthesis {
  readonly app: App;
  readonly data: Template;
  readonly schedules: Template;
  readonly api: Template;
  readonly observability: Template;
  /** Set only if programs run on Fargate or in MicroVMs. */
  readonly compute?: Template;
  /** Set only if services run. */
  readonly services?: Template;
  /** Set only with CloudFront. */
  readonly web?: Template;
  /** Folder of the assembly with its assets. */
  readonly folder: string;
  readonly stacks: readonly SynthesisedStack[];
}

const syntheses = new WeakMap<StageFile, Synthesis>();

/**
 * Synthesizes the app of a stage with empty bundles, because another test builds the real ones. Tests share the result.
 */
export function synthesise(stage: StageFile): Synthesis {
  const synthesis = syntheses.get(stage) ?? synthesiseAnew(stage);
  syntheses.set(stage, synthesis);
  return synthesis;
}

/**
 * Runs the CDK's own checks, which take half of the time of a synthesis, once per distinct template. Most stages share
 * most stacks except for the name of the stage.
 */
class TemplateChecks extends CloudFormationValidatePlugin {
  readonly #passed = new Set<string>();
  stageName = '';
  isOn = true;

  override validate(context: IPolicyValidationContext): PolicyValidationPluginReport {
    if (!this.isOn) return { success: true, violations: [] };
    const textOf = (path: string) => readFileSync(path, 'utf8').replaceAll(this.stageName, 'stage');
    const unchecked = new Map(context.stackTemplates.map((each) => [textOf(each.templatePath), each]));
    for (const text of this.#passed) unchecked.delete(text);
    if (unchecked.size === 0) return { success: true, violations: [] };
    const stackTemplates = [...unchecked.values()];
    const report = super.validate({ ...context, stackTemplates });
    if (report.violations.length === 0) for (const text of unchecked.keys()) this.#passed.add(text);
    return report;
  }
}

const templateChecks = new TemplateChecks();

/** @param options.isChecked Whether the CDK checks the templates, which takes 10 s of CPU time. */
export function synthesiseAnew(
  stage: StageFile,
  bundles = emptyBundles(),
  { isChecked = true }: { readonly isChecked?: boolean } = {},
): Synthesis {
  const folder = temporaryFolder('synth-');
  const app = new App({ context: cdkJson.context, outdir: folder });
  Validations.of(app).addPlugins(templateChecks);
  templateChecks.stageName = stage.name;
  templateChecks.isOn = isChecked;
  const { data, schedules, api, observability, compute, services, web } = addStage(app, stage, {
    ...emptyFolders(),
    bundles,
  });
  const assembly = app.synth();
  const templateOf = (stack: Stack): Template => assembly.getStackByName(stack.stackName).template;
  return {
    app,
    data: templateOf(data),
    schedules: templateOf(schedules),
    api: templateOf(api),
    observability: templateOf(observability),
    compute: compute && templateOf(compute),
    services: services && templateOf(services),
    web: web && templateOf(web),
    folder,
    stacks: assembly.stacks.map(({ stackName, template, dependencies, terminationProtection = false }) => ({
      name: stackName,
      template,
      after: dependencies
        .filter(CloudFormationStackArtifact.isCloudFormationStackArtifact)
        .map((each) => each.stackName),
      terminationProtection,
    })),
  };
}

/** Empty folders in place of what the stacks deploy. */
export const emptyFolders = () => ({
  bundles: emptyBundles(),
  runnerContext: emptyRunner(),
  dashboard: emptyDashboard(),
  docs: emptyDocs(),
});

function emptyDashboard(): string {
  const folder = temporaryFolder('dashboard-');
  mkdirSync(join(folder, 'assets'));
  const files = {
    'index.html': '<base href="/dashboard/"><meta name="platform-command" content="npx platform">',
    'theme.js': '',
    'theme.js.br': '',
    'assets/main-1a2b.js': '',
  };
  for (const [file, content] of Object.entries(files)) writeFileSync(join(folder, file), content);
  return folder;
}

function emptyDocs(): string {
  const folder = temporaryFolder('docs-');
  for (const name of ['_astro', 'api', 'errors']) mkdirSync(join(folder, name));
  const files = ['index.html', 'index.md', '404.html', 'calls.html', 'calls.md', 'errors/TIMEOUT.html', 'api.html'];
  for (const file of [...files, 'api/callagent.html', '_astro/page.1a2b.js', 'llms.txt'])
    writeFileSync(join(folder, file), '');
  writeFileSync(join(folder, 'index.html'), '<a href="/docs/calls">');
  return folder;
}

function emptyRunner(): string {
  const folder = temporaryFolder('runner-');
  writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\n');
  return folder;
}

function emptyBundles(): string {
  const folder = temporaryFolder('bundles-');
  const names = [
    ...FUNCTION_NAMES,
    ...BACKGROUND_FUNCTIONS,
    ...Object.keys({ ...POOL_FUNCTIONS, ...MICROVM_FUNCTIONS }),
    'call-server',
    'cleaner',
    'compile-cache',
    'data-version',
    'release',
    'pool-cleaner',
    'services-cleaner',
  ];
  for (const fn of names) {
    mkdirSync(join(folder, fn));
    writeFileSync(join(folder, fn, 'index.mjs'), `// ${fn}\n`);
  }
  return folder;
}

export const resourcesOf = (template: Template, type: string): [id: string, resource: Resource][] =>
  Object.entries(template.Resources).filter(([, resource]) => resource.Type === type);

const PSEUDO: Record<string, string> = {
  'AWS::Partition': 'aws',
  'AWS::Region': TEST_REGION,
  'AWS::AccountId': TEST_ACCOUNT,
  'AWS::URLSuffix': 'amazonaws.com',
  'AWS::StackId': `arn:aws:cloudformation:${TEST_REGION}:${TEST_ACCOUNT}:stack/a-stack/51af3dc0-da77-11e4-872e-1234567db123`,
};

/** Renders a value as CloudFormation would; values known only after deployment become `<Id>` or `<Id.Attribute>`. */
export function rendered(value: unknown, region = TEST_REGION): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const [[intrinsic, argument] = []] = Object.entries(value);
  const inRegion = (part: unknown) => rendered(part, region);
  switch (intrinsic) {
    case 'Ref':
      return argument === 'AWS::Region' ? region : (PSEUDO[argument] ?? `<${argument}>`);
    case 'Fn::GetAtt':
      return `<${argument.join('.')}>`;
    case 'Fn::Join':
      return argument[1].map(inRegion).join(argument[0]);
    case 'Fn::ImportValue':
      return `<${argument}>`;
    case 'Fn::Select': {
      const [
        index,
        {
          'Fn::Split': [separator, text],
        },
      ] = argument;
      return inRegion(text).split(separator)[index]!;
    }
    case 'Fn::Sub':
      return argument.replaceAll(/\$\{([\w:]+)\}/g, (_: string, name: string) => inRegion({ Ref: name }));
    default:
      throw new Error(`no text for ${JSON.stringify(value)}`);
  }
}

export const functionIdOf = (template: Template, fn: string): string =>
  resourcesOf(template, 'AWS::Lambda::Function').find(([, { Properties }]) =>
    Properties.FunctionName?.endsWith(`-${fn}`),
  )![0];

/** Returns the environment variables of a function. */
export function environmentOf(template: Template, fn: string): Record<string, string> {
  const { Variables } = template.Resources[functionIdOf(template, fn)]!.Properties.Environment;
  return Object.fromEntries(
    Object.entries(Variables).map(([name, value]) => [name, rendered(value).replaceAll(/[<>]/g, '')]),
  );
}

/** Returns the actions that a function's role allows, by resource, both sorted, and the statements that deny any. */
export function policyOf(
  template: Template,
  fn: string,
): { role: Resource['Properties']; allowed: Record<string, string[]>; denied: object[] } {
  const roleId = template.Resources[functionIdOf(template, fn)]!.Properties.Role['Fn::GetAtt'][0];
  const allowed: Record<string, string[]> = {};
  const denied: object[] = [];
  for (const [, { Properties }] of resourcesOf(template, 'AWS::IAM::Policy')) {
    if (!Properties.Roles.some((role: { Ref: string }) => role.Ref === roleId)) continue;
    for (const statement of Properties.PolicyDocument.Statement) {
      const { Effect, Action, Resource } = statement;
      if (Effect !== 'Allow') {
        denied.push(statement);
        continue;
      }
      for (const resource of [Resource].flat()) {
        const arn = rendered(resource);
        allowed[arn] = [...(allowed[arn] ?? []), ...[Action].flat()].sort();
      }
    }
  }
  return { role: template.Resources[roleId]!.Properties, allowed, denied };
}
