import { allowing, statementOf } from '../rehearsal/iam.ts';
import { type Resource, TEST_ACCOUNT, type Template } from './templates.ts';

/** Access of an AWS service to a resource that another resource of the template requires. */
interface Need {
  /** The resource that requires the access. */
  readonly by: string;
  readonly service: string;
  readonly action: string;
  /** The resource to access, as {@link resolved} writes it. */
  readonly resource: string;
  /** ARN of the resource that causes the request. */
  readonly source: string;
  /** Role that the service assumes for it, as {@link resolved} writes it. @default - the resource's policy decides */
  readonly role?: string;
}

// biome-ignore lint/suspicious/noExplicitAny: what CloudFormation knows of a resource is not typed here.
type Any = any;

/**
 * Returns, as sentences, the access that AWS services need to the template's resources and that policies do not allow.
 * SNS, SQS, S3 and KMS have resource policies; Lambda has one policy per permission. A topic without a policy has SNS's
 * default, which lets alarms of the account publish; an explicit policy replaces it. A service that assumes a role needs
 * the role's trust and policies instead.
 */
export function unreachable(template: Template): string[] {
  return needsOf(template)
    .flatMap((need) => [need, ...keyNeedsOf(template, need)])
    .filter((need) => !isAllowed(template, need))
    .map(({ by, service, action, resource }) => `${service} may not ${action} ${resource}, which ${by} needs`);
}

export function needsOf({ Resources }: Template): Need[] {
  const own = (resource: string, type: string) => Resources[idOf(resource)]?.Type === type;
  return Object.entries(Resources).flatMap(([by, { Type, Properties }]): Need[] => {
    const need = (service: string, action: string, resource: string): Need => ({
      ...{ by, service: `${service}.amazonaws.com`, action, resource, source: `${by}.Arn` },
    });
    switch (Type) {
      case 'AWS::CloudWatch::Alarm':
        return ['AlarmActions', 'OKActions', 'InsufficientDataActions']
          .flatMap((name) => (Properties[name] ?? []) as unknown[])
          .map(resolved)
          .filter((topic) => own(topic, 'AWS::SNS::Topic'))
          .map((topic) => need('cloudwatch', 'sns:Publish', topic));
      case 'AWS::Budgets::Budget':
        return (Properties.NotificationsWithSubscribers as Any[])
          .flatMap(({ Subscribers }) => Subscribers)
          .filter(({ SubscriptionType }) => SubscriptionType === 'SNS')
          .map(({ Address }) => need('budgets', 'sns:Publish', resolved(Address)));
      case 'AWS::Events::Rule':
        return (Properties.Targets as Any[]).flatMap(({ Arn, RoleArn, DeadLetterConfig }) => {
          const target = resolved(Arn);
          const dead = DeadLetterConfig && need('events', 'sqs:SendMessage', resolved(DeadLetterConfig.Arn));
          const actions = [
            ['AWS::SNS::Topic', 'sns:Publish'],
            ['AWS::SQS::Queue', 'sqs:SendMessage'],
            ['AWS::Lambda::Function', 'lambda:InvokeFunction'],
          ] as const;
          const sent = actions.filter(([type]) => own(target, type));
          // All rules with a role start builds: for any other target the role would lack the right.
          const needs =
            RoleArn === undefined
              ? sent.map(([, action]) => need('events', action, target))
              : [{ ...need('events', 'codebuild:StartBuild', target), role: resolved(RoleArn) }];
          return [...needs, ...(dead ? [dead] : [])];
        });

      case 'AWS::S3::Bucket': {
        const logs = Properties.LoggingConfiguration?.DestinationBucketName;
        return logs === undefined ? [] : [need('logging.s3', 's3:PutObject', `${resolved(logs)}.Arn/log`)];
      }
      case 'AWS::EC2::FlowLog': {
        const logGroup = `${resolved(Properties.LogGroupName)}.Arn`;
        const role = resolved(Properties.DeliverLogsPermissionArn);
        return ['logs:CreateLogStream', 'logs:PutLogEvents'].map((action) => ({
          ...need('vpc-flow-logs', action, logGroup),
          role,
        }));
      }
      case 'AWS::Lambda::EventInvokeConfig': {
        const failed = Properties.DestinationConfig?.OnFailure?.Destination;
        if (failed === undefined) return [];
        const role = resolved(Resources[idOf(resolved(Properties.FunctionName))]!.Properties.Role);
        return [{ ...need('lambda', 'sqs:SendMessage', resolved(failed)), role }];
      }
      case 'AWS::Logs::LogGroup': {
        const key = Properties?.KmsKeyId;
        const actions = ['kms:Encrypt', 'kms:Decrypt', 'kms:GenerateDataKey'];
        return key === undefined ? [] : actions.map((action) => need('logs', action, resolved(key)));
      }
      case 'AWS::SNS::Subscription':
        return Properties.Protocol === 'sqs' ? [need('sns', 'sqs:SendMessage', resolved(Properties.Endpoint))] : [];
      case 'AWS::CloudFront::Distribution':
        return (Properties.DistributionConfig.Origins as Any[])
          .filter(({ OriginAccessControlId }) => OriginAccessControlId !== undefined)
          .map(({ DomainName }) => resolved(DomainName).replace(/\.RegionalDomainName$/, '.Arn/index.html'))
          .map((object) => ({ ...need('cloudfront', 's3:GetObject', object), source: distributionArn(by) }));
      default:
        return [];
    }
  });
}

/** Returns the access to the key of an encrypted resource that comes with the access to the resource. */
function keyNeedsOf({ Resources }: Template, need: Need): Need[] {
  const { Type, Properties } = Resources[idOf(need.resource)] ?? {};
  const keys: Readonly<Record<string, unknown>> = {
    'AWS::SNS::Topic': Properties?.KmsMasterKeyId,
    'AWS::SQS::Queue': Properties?.KmsMasterKeyId,
    'AWS::S3::Bucket':
      Properties?.BucketEncryption?.ServerSideEncryptionConfiguration?.[0]?.ServerSideEncryptionByDefault
        ?.KMSMasterKeyID,
  };
  const key = keys[Type ?? ''];
  if (key === undefined) return [];
  return ['kms:Decrypt', 'kms:GenerateDataKey'].map((action) => ({ ...need, action, resource: resolved(key) }));
}

const distributionArn = (id: string) => `arn:AWS::Partition:cloudfront::${TEST_ACCOUNT}:distribution/${id}`;

function isAllowed({ Resources }: Template, need: Need): boolean {
  const { service, action, resource, source, role } = need;
  const all = Object.values(Resources);
  const context = {
    'aws:SourceAccount': [TEST_ACCOUNT],
    'aws:SourceArn': [source],
    'AWS:SourceArn': [source],
    'aws:SecureTransport': ['true'],
  };
  if (role !== undefined) {
    const { AssumeRolePolicyDocument: trust, Policies = [] } = Resources[idOf(role)]!.Properties;
    const attached = all.filter(
      ({ Type, Properties }) =>
        Type === 'AWS::IAM::Policy' && (Properties.Roles as unknown[]).some((each) => resolved(each) === idOf(role)),
    );
    const documents = [...Policies, ...attached.map(({ Properties }) => Properties)].map(
      ({ PolicyDocument }) => PolicyDocument,
    );
    const assume = statementsOf([trust]).filter(({ Principal }) => isFor(Principal, service));
    // A trust policy names no resource.
    const trusted = assume.map((statement) => statementOf({ Resource: '*', ...statement }));
    return (
      allowing(trusted, { action: 'sts:AssumeRole', resource: role, context }) !== undefined &&
      allowing(statementsOf(documents).map(statementOf), { action, resource, context }) !== undefined
    );
  }
  if (action.startsWith('kms:')) {
    // The policies of other keys, also of those of AWS, are out of reach.
    const document = Resources[idOf(resource)]?.Properties.KeyPolicy;
    if (document === undefined) return false;
    const own = statementsOf([document]).filter(({ Principal }) => isFor(Principal, service));
    return allowing(own.map(statementOf), { action, resource, context }) !== undefined;
  }
  if (action.startsWith('lambda:')) {
    return all.some(
      ({ Type, Properties }) =>
        Type === 'AWS::Lambda::Permission' &&
        Properties.Principal === service &&
        Properties.Action === action &&
        resolved(Properties.FunctionName) === resource &&
        (Properties.SourceArn === undefined || resolved(Properties.SourceArn) === source),
    );
  }
  const policies = all.filter((each) => isPolicyOf(each, idOf(resource)));
  if (policies.length === 0) return service === 'cloudwatch.amazonaws.com';
  const statements = statementsOf(policies.map(({ Properties }) => Properties.PolicyDocument))
    .filter(({ Principal }) => isFor(Principal, service))
    .map(statementOf);
  return allowing(statements, { action, resource, context }) !== undefined;
}

const statementsOf = (documents: readonly Any[]): Any[] =>
  documents.flatMap(({ Statement }) => [Statement].flat()).map((statement) => deepResolved(statement));

function isPolicyOf({ Type, Properties }: Resource, id: string): boolean {
  if (!['AWS::SNS::TopicPolicy', 'AWS::SQS::QueuePolicy', 'AWS::S3::BucketPolicy'].includes(Type)) return false;
  return [Properties.Topics ?? Properties.Queues ?? Properties.Bucket].flat().some((each) => resolved(each) === id);
}

const isFor = (principal: Any, service: string): boolean =>
  principal === '*' || principal.AWS === '*' || [principal.Service].flat().includes(service);

const idOf = (resource: string): string => resource.split(/[./]/, 1)[0]!;

/** Returns a value with its references resolved: `topic`, `queue.Arn`, `bucket.Arn/*`. */
function resolved(value: Any): string {
  if (typeof value !== 'object' || value === null) return String(value);
  if ('Ref' in value) return value.Ref === 'AWS::AccountId' ? TEST_ACCOUNT : value.Ref;
  if ('Fn::GetAtt' in value) return [value['Fn::GetAtt']].flat().join('.');
  if ('Fn::Join' in value) return value['Fn::Join'][1].map(resolved).join(value['Fn::Join'][0]);
  return JSON.stringify(value);
}

function deepResolved(value: Any): unknown {
  if (Array.isArray(value)) return value.map(deepResolved);
  if (typeof value !== 'object' || value === null) return value;
  if (Object.keys(value).some((key) => key === 'Ref' || key.startsWith('Fn::'))) return resolved(value);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, deepResolved(member)]));
}
