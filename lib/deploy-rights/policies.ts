/**
 * Rights of the role with which CloudFormation deploys the stacks: for each resource type, the actions that AWS
 * publishes in the type's schema (`handlers`), on resources whose names begin with the platform's prefix where an action
 * accepts a resource.
 */

/** Part of a synthesized template. */
export interface Template {
  readonly Resources: Readonly<Record<string, { readonly Type: string; readonly Properties?: unknown }>>;
}

/** What AWS publishes, for the types of the stacks (`permissions.json`). */
export interface Published {
  /** Resource type -> actions of its handlers, except listing. */
  readonly types: Readonly<Record<string, readonly string[]>>;
  /** Action -> kinds of resources that it accepts in a policy, as in the service authorization reference. */
  readonly kinds: Readonly<Record<string, readonly string[]>>;
}

export interface DeployRightsOptions {
  /** First part of every physical name. */
  readonly namePrefix: string;
  /** Path of all roles. */
  readonly rolePath: string;
  /** Name of the policy that every role must have as permissions boundary. @default - none */
  readonly permissionsBoundary?: string | undefined;
}

interface Statement {
  readonly Effect: 'Allow';
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: object;
}

export interface PolicyDocument {
  readonly Version: '2012-10-17';
  readonly Statement: readonly Statement[];
}

/** IAM counts the characters of a managed policy without white space. */
export const MAX_POLICY_LENGTH = 6144;

/** Actions of types whose schemas name none or not all, or which are newer than the published schemas. */
const MORE_TYPES: Published['types'] = {
  'AWS::Budgets::Budget': ['budgets:ModifyBudget', 'budgets:TagResource', 'budgets:ViewBudget'],
  'AWS::CloudWatch::Dashboard': tagging('cloudwatch'),
  // A condition is an address that CloudFormation signs.
  'AWS::CloudFormation::WaitCondition': [],
  'AWS::CloudFormation::WaitConditionHandle': [],
  'AWS::CodeBuild::Project': [
    'codebuild:BatchGetProjects',
    'codebuild:CreateProject',
    'codebuild:DeleteProject',
    'codebuild:UpdateProject',
    'iam:PassRole',
  ],
  'AWS::ECS::Gateway': [
    'ecs:CreateGateway',
    'ecs:DeleteGateway',
    'ecs:DescribeGateway',
    'ecs:TagResource',
    'ecs:UntagResource',
    'ecs:UpdateGateway',
    'iam:PassRole',
  ],
  'AWS::ECS::GatewayClusterAssociations': [
    'ecs:AssociateGatewayWithCluster',
    'ecs:DescribeGateway',
    'ecs:DisassociateGatewayFromCluster',
    'ecs:ListGatewayClusterAssociations',
  ],
  'AWS::Events::Rule': tagging('events'),
  'AWS::Lambda::MicrovmImage': [
    'iam:PassRole',
    'lambda:CreateMicrovmImage',
    'lambda:DeleteMicrovmImage',
    'lambda:DeleteMicrovmImageVersion',
    'lambda:GetMicrovmImage',
    'lambda:GetMicrovmImageBuild',
    'lambda:GetMicrovmImageVersion',
    'lambda:ListMicrovmImageBuilds',
    'lambda:ListMicrovmImageVersions',
    'lambda:ListTags',
    'lambda:PassNetworkConnector',
    'lambda:TagResource',
    'lambda:UntagResource',
    'lambda:UpdateMicrovmImage',
    'lambda:UpdateMicrovmImageVersion',
    's3:GetObject',
  ],
  'AWS::Lambda::WebFunction': webFunction(
    'WebFunction',
    'lambda:ListTags',
    'lambda:TagResource',
    'lambda:UntagResource',
  ),
  'AWS::Lambda::WebFunctionEndpoint': webFunction('WebFunctionEndpoint', 'lambda:UpdateWebFunctionEndpoint'),
  // The policy of the bucket lets Lambda read the code. Whether the caller must be allowed to, too, is not documented.
  'AWS::Lambda::WebFunctionRevision': webFunction(
    'WebFunctionRevision',
    'iam:PassRole',
    's3:GetObject',
    's3:GetObjectVersion',
  ),
  'AWS::Route53::RecordSet': [
    'route53:ChangeResourceRecordSets',
    'route53:GetChange',
    'route53:GetHostedZone',
    'route53:ListResourceRecordSets',
  ],
  // CloudFormation calls the functions of custom resources.
  'Custom::': ['lambda:InvokeFunction'],
};

function tagging(service: string): string[] {
  return ['ListTagsForResource', 'TagResource', 'UntagResource'].map((action) => `${service}:${action}`);
}

/** Returns the actions of the API `lambda-web` on one kind of resource. */
function webFunction(kind: string, ...more: string[]): string[] {
  return [
    ...['Create', 'Delete', 'Get', 'List'].map((verb) => `lambda:${verb}${kind}${verb === 'List' ? 's' : ''}`),
    ...more,
  ];
}

/** Needed by every stack: the CDK's templates name a parameter with the version of the bootstrap stack. */
const ALWAYS = ['ssm:GetParameters'];

/** Kinds of resources of {@link MORE_TYPES} and {@link ALWAYS}, instead of those published. */
const MORE_KINDS: Published['kinds'] = {
  'budgets:ModifyBudget': ['budget'],
  'budgets:TagResource': ['budget'],
  'budgets:ViewBudget': ['budget'],
  'cloudwatch:TagResource': ['alarm', 'dashboard'],
  'cloudwatch:UntagResource': ['alarm', 'dashboard'],
  'codebuild:BatchGetProjects': ['project'],
  'codebuild:CreateProject': ['project'],
  'codebuild:DeleteProject': ['project'],
  'codebuild:UpdateProject': ['project'],
  'events:TagResource': ['rule-on-default-event-bus'],
  'events:UntagResource': ['rule-on-default-event-bus'],
  'lambda:InvokeFunction': ['function'],
  'lambda:TagResource': ['eventSourceMapping', 'function', 'microvm-image', 'web-function'],
  'lambda:UntagResource': ['eventSourceMapping', 'function', 'microvm-image', 'web-function'],
  ...Object.fromEntries(
    ['WebFunction', 'WebFunctionEndpoint', 'WebFunctionRevision'].flatMap((kind) =>
      ['Create', 'Delete', 'Get', 'Update'].map((verb) => [`lambda:${verb}${kind}`, ['web-function']]),
    ),
  ),
  's3:GetObjectVersion': ['object'],
  'ssm:GetParameters': ['parameter'],
};

/** Actions of the schemas for properties that the stacks do not use. */
const UNUSED: readonly RegExp[] = [
  // Web ACLs of other services, file systems, streams to other services, metadata tables, lattices, deployments of aliases.
  /^(amplify|apprunner|appsync|codedeploy|cognito-idp|elasticfilesystem|firehose|kinesis|s3tables|vpc-lattice|vpce):/,
  // Replicas in other Regions copy items with these.
  /^dynamodb:(BatchWriteItem|DeleteItem|GetItem|PutItem|Query|Scan|UpdateItem)$/,
  // Objects of a bucket; the deployment of a stage has functions for these.
  /^s3:(DeleteObject|PutObjectAcl)$/,
  // Policies of users and groups.
  /^iam:\w+(Group|User)Policy$/,
];

/** Services whose role CloudFormation may create in the account, if it does not exist yet. */
const SERVICE_LINKED = ['ecs', 'ecs.application-autoscaling', 'elasticloadbalancing', 'ops.apigateway'];

/** Uses of a customer's KMS key, which are only granted through the services that encrypt with it. */
const KEY_USE = /^kms:(CreateGrant|Decrypt|Encrypt|GenerateDataKey\w*|ReEncrypt\w+|RetireGrant|RevokeGrant)$/;
const KEY_SERVICES = ['dynamodb', 'lambda', 'logs', 's3', 'secretsmanager', 'sns', 'sqs'];

/** Actions that give a role rights, or take its boundary away. */
const ROLE_RIGHTS = /^iam:(CreateRole|(Put|Delete)RolePolicy|(Attach|Detach)RolePolicy|PutRolePermissionsBoundary)$/;

/** Describing resources shows nothing of users, and IAM often checks it against all resources of an account. */
const DESCRIBES = /:(Describe|List(?!Bucket))/;

/**
 * ARNs for the kinds of resources whose names begin with the prefix. A kind with no ARN is not part of the stacks; an
 * action with a kind that is missing here is allowed on all resources, such as those of EC2, which have no names.
 */
const scopesOf = ({ namePrefix: prefix, rolePath }: DeployRightsOptions): Record<string, readonly string[]> => {
  const named = (service: string, ...kinds: string[]) => kinds.map((kind) => `arn:aws:${service}:*:*:${kind}`);
  const functions = named('lambda', `function:${prefix}-*`);
  return {
    'budgets:budget': [`arn:aws:budgets::*:budget/${prefix}-*`],
    'cloudwatch:alarm': named('cloudwatch', `alarm:${prefix}-*`),
    'cloudwatch:alarm-mute-rule': [],
    'cloudwatch:dashboard': [`arn:aws:cloudwatch::*:dashboard/${prefix}-*`],
    'cloudwatch:insight-rule': [],
    'cloudwatch:slo': [],
    'codebuild:project': named('codebuild', `project/${prefix}-*`),
    'dynamodb:index': named('dynamodb', `table/${prefix}-*`),
    'dynamodb:stream': named('dynamodb', `table/${prefix}-*`),
    'dynamodb:table': named('dynamodb', `table/${prefix}-*`),
    'ecr:repository': named('ecr', `repository/${prefix}-*`),
    'elasticloadbalancing:listener/app': named('elasticloadbalancing', `listener/app/${prefix}-*`),
    'elasticloadbalancing:listener/gwy': [],
    'elasticloadbalancing:listener/net': [],
    'elasticloadbalancing:loadbalancer/app/': named('elasticloadbalancing', `loadbalancer/app/${prefix}-*`),
    'elasticloadbalancing:loadbalancer/gwy/': [],
    'elasticloadbalancing:loadbalancer/net/': [],
    'events:rule-on-custom-event-bus': [],
    'events:rule-on-default-event-bus': named('events', `rule/${prefix}-*`),
    'iam:role': [`arn:aws:iam::*:role${rolePath}${prefix}-*`],
    'lambda:capacityProvider': [],
    'lambda:code signing config': [],
    'lambda:eventSourceMapping': named('lambda', 'event-source-mapping:*'),
    'lambda:function': functions,
    'lambda:function alias': functions,
    'lambda:function version': functions,
    'lambda:microvm-image': named('lambda', `microvm-image:${prefix}-*`),
    'lambda:layer': named('lambda', `layer:${prefix}-*`),
    'lambda:layerVersion': named('lambda', `layer:${prefix}-*`),
    // Revisions and endpoints are below the name of their function.
    'lambda:web-function': named('lambda', `web-function/${prefix}-*`),
    'logs:anomaly-detector': [],
    'logs:delivery': [],
    'logs:delivery-destination': [],
    'logs:delivery-source': [],
    'logs:destination': [],
    'logs:log-group': named(
      'logs',
      // A group of the CDK has a name that CloudFormation makes from the stack's.
      ...[
        ...['API-Gateway-Execution-Logs_*', `/${prefix}/*`, `/aws/apigateway/${prefix}-*`, `/aws/lambda/${prefix}-*`],
        `${prefix}-*`,
      ].map((group) => `log-group:${group}`),
    ),
    'logs:lookup-table': [],
    'logs:scheduled-query': [],
    's3:accesspoint': [],
    's3:accesspointobject': [],
    's3:bucket': [`arn:aws:s3:::${prefix}-*`],
    // The CDK's bucket has the code of functions.
    's3:object': [`arn:aws:s3:::${prefix}-*/*`, 'arn:aws:s3:::cdk-*-assets-*/*'],
    'scheduler:schedule': named('scheduler', `schedule/${prefix}-*`),
    'scheduler:schedule-group': named('scheduler', `schedule-group/${prefix}-*`),
    'sns:topic': named('sns', `${prefix}-*`),
    'sqs:queue': named('sqs', `${prefix}-*`),
    'ssm:parameter': named('ssm', 'parameter/cdk-bootstrap/*'),
  };
};

/** Whether the kinds of resources of an action matter for its scope. */
export const isScoped = (action: string): boolean =>
  Object.keys(scopesOf({ namePrefix: '', rolePath: '' })).some((kind) => kind.startsWith(`${action.split(':')[0]}:`));

/** Rights of a person or a pipeline that runs `cdk deploy`: to take on the roles of the bootstrap stack. */
export const DEPLOYER: PolicyDocument = {
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Action: ['sts:AssumeRole'],
      Resource: ['deploy', 'file-publishing', 'lookup'].map((role) => `arn:aws:iam::*:role/cdk-*-${role}-role-*`),
    },
  ],
};

/** Returns the types of these templates, with one name for all custom resources. */
export const typesOf = (templates: readonly Template[]): string[] => {
  const types = templates.flatMap(({ Resources }) => Object.values(Resources).map(({ Type }) => Type));
  return [...new Set(types.map((type) => (type.startsWith('Custom::') ? 'Custom::' : type)))].sort();
};

/** Returns the types of the list whose actions are unknown. */
export const unknownTypes = (types: readonly string[], published: Published): string[] =>
  types.filter((type) => !(type in MORE_TYPES) && !(type in published.types));

/** Returns the services that the roles of these templates name in their trust. */
function servicesOf(templates: readonly Template[]): string[] {
  const trusts = templates.flatMap(({ Resources }) =>
    Object.values(Resources).flatMap(({ Type, Properties }) =>
      Type === 'AWS::IAM::Role' ? JSON.stringify(Properties).match(/"Service":"[\w.-]+"/g) : [],
    ),
  );
  return [...new Set(trusts.map((trust) => trust!.slice('"Service":"'.length, -1)))].sort();
}

/**
 * Returns the managed policies by their names, each within IAM's limit.
 *
 * @param templates Templates of every kind of stage. Throws if the actions of one of their types are unknown.
 */
export function deployPolicies(
  templates: readonly Template[],
  published: Published,
  options: DeployRightsOptions,
): Record<string, PolicyDocument> {
  const types = typesOf(templates);
  const unknown = unknownTypes(types, published);
  if (unknown.length > 0) throw new Error(`the actions of ${unknown.join(', ')} are unknown: npm run aws:rights`);
  const actions = new Set(
    [...ALWAYS, ...types.flatMap((type) => [...(published.types[type] ?? []), ...(MORE_TYPES[type] ?? [])])].filter(
      (action) => !UNUSED.some((unused) => unused.test(action)),
    ),
  );
  if (options.permissionsBoundary !== undefined) actions.delete('iam:DeleteRolePermissionsBoundary');
  return packed(statementsOf([...actions].sort(), servicesOf(templates), published, options));
}

function statementsOf(
  actions: readonly string[],
  services: readonly string[],
  published: Published,
  options: DeployRightsOptions,
): Statement[] {
  const { permissionsBoundary: boundary } = options;
  const scopes = scopesOf(options);
  const conditionOf = (action: string): object | undefined => {
    if (action === 'iam:PassRole') return { StringEquals: { 'iam:PassedToService': services } };
    if (action === 'iam:CreateServiceLinkedRole') {
      return { StringEquals: { 'iam:AWSServiceName': SERVICE_LINKED.map((name) => `${name}.amazonaws.com`) } };
    }
    if (KEY_USE.test(action)) {
      return { StringLike: { 'kms:ViaService': KEY_SERVICES.map((name) => `${name}.*.amazonaws.com`) } };
    }
    if (boundary !== undefined && ROLE_RIGHTS.test(action)) {
      return { ArnLike: { 'iam:PermissionsBoundary': `arn:aws:iam::*:policy/${boundary}` } };
    }
    return undefined;
  };
  const resourcesOf = (action: string): readonly string[] => {
    if (action === 'iam:CreateServiceLinkedRole') return ['arn:aws:iam::*:role/aws-service-role/*'];
    const kinds = DESCRIBES.test(action) ? [] : (MORE_KINDS[action] ?? published.kinds[action] ?? []);
    const arns = kinds.map((kind) => scopes[`${action.split(':')[0]}:${kind}`]);
    const known = arns.some((each) => each === undefined) ? [] : [...new Set(arns.flatMap((each) => each!))];
    return known.length > 0 ? known.sort() : ['*'];
  };
  // One statement for the actions of a service that have the same resources and condition.
  const groups = Map.groupBy(actions, (action) => {
    const [service] = action.split(':');
    return JSON.stringify([service, resourcesOf(action), conditionOf(action)]);
  });
  return [...groups.values()].map((group) => {
    const Condition = conditionOf(group[0]!);
    return { Effect: 'Allow', Action: group, Resource: resourcesOf(group[0]!), ...(Condition && { Condition }) };
  });
}

export const lengthOf = (policy: PolicyDocument): number => JSON.stringify(policy).length;

/** Fills one policy after the other. */
function packed(statements: readonly Statement[]): Record<string, PolicyDocument> {
  const policies: PolicyDocument[] = [];
  for (const statement of statements) {
    const last = policies.at(-1) ?? { Version: '2012-10-17', Statement: [] };
    const longer: PolicyDocument = { ...last, Statement: [...last.Statement, statement] };
    if (policies.length > 0 && lengthOf(longer) <= MAX_POLICY_LENGTH) policies[policies.length - 1] = longer;
    else policies.push({ Version: '2012-10-17', Statement: [statement] });
  }
  return Object.fromEntries(policies.map((policy, index) => [`AgentPlatformDeploy${index + 1}`, policy]));
}
