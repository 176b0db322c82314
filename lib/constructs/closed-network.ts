import { Aws, Fn } from 'aws-cdk-lib';
import type { GatewayVpcEndpoint, InterfaceVpcEndpoint, IVpc } from 'aws-cdk-lib/aws-ec2';
import { AnyPrincipal, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import {
  CfnFirewallDomainList,
  CfnFirewallRuleGroup,
  CfnFirewallRuleGroupAssociation,
} from 'aws-cdk-lib/aws-route53resolver';
import { Construct } from 'constructs';
import { bucketNameOf, platformNameOf, platformPathOf, runnerImageNameOf, type Stage } from '../config.ts';

export interface ClosedNetworkProps {
  readonly stage: Stage;
  readonly vpc: IVpc;
  /** Endpoints of the image's registry: its API and its layers. */
  readonly registry: readonly InterfaceVpcEndpoint[];
  readonly logs: InterfaceVpcEndpoint;
  readonly s3: GatewayVpcEndpoint;
}

/** Hosts that tasks and the function in their network resolve, below the Region's domain. */
const HOSTS = ['api.ecr', '*.dkr.ecr', 'logs', 's3', '*.s3', 'dynamodb', '*.ddb'];
/** Bucket of ECR, from which every image's layers are read: docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html. */
const LAYERS = `arn:\${AWS::Partition}:s3:::prod-\${AWS::Region}-starport-layer-bucket/*`;
const BY_THIS_ACCOUNT = { StringEquals: { 'aws:PrincipalAccount': Aws.ACCOUNT_ID } };

/**
 * Closes a network without a way to the internet: a program with credentials of its own can use the endpoints of AWS for
 * nothing of another account, and names of other hosts are not resolved, so that names cannot carry data out either.
 */
export class ClosedNetwork extends Construct {
  constructor(scope: Construct, id: string, { stage, vpc, registry, logs, s3 }: ClosedNetworkProps) {
    super(scope, id);
    const repository = `arn:\${AWS::Partition}:ecr:\${AWS::Region}:\${AWS::AccountId}:repository/${runnerImageNameOf(stage, 'sandbox')}`;
    for (const endpoint of registry) {
      allow(endpoint, ['ecr:GetAuthorizationToken'], ['*']);
      const pull = ['BatchCheckLayerAvailability', 'BatchGetImage', 'GetDownloadUrlForLayer'];
      allow(
        endpoint,
        pull.map((action) => `ecr:${action}`),
        [repository],
      );
    }
    const log = `arn:\${AWS::Partition}:logs:\${AWS::Region}:\${AWS::AccountId}:log-group:/${platformPathOf(stage)}/sandbox:*`;
    allow(logs, ['logs:CreateLogStream', 'logs:PutLogEvents'], [log]);
    const bucket = `arn:\${AWS::Partition}:s3:::${bucketNameOf(stage)}`;
    // The signer of a link counts as its principal.
    allow(s3, ['s3:GetObject', 's3:PutObject'], [`${bucket}/*`]);
    // Without this permission, S3 responds 403 for a missing object.
    allow(s3, ['s3:ListBucket'], [bucket]);
    // ECR signs these links.
    s3.addToPolicy(
      new PolicyStatement({
        principals: [new AnyPrincipal()],
        actions: ['s3:GetObject'],
        resources: [Fn.sub(LAYERS)],
      }),
    );
    this.#resolveOnly(vpc, `${platformNameOf(stage)}-sandbox`);
  }

  #resolveOnly(vpc: IVpc, name: string): void {
    const list = (list: string, domains: string[]) =>
      new CfnFirewallDomainList(this, list, { name: `${name}-${list}`, domains }).attrId;
    const hosts = HOSTS.map((host) => Fn.sub(`${host}.\${AWS::Region}.\${AWS::URLSuffix}`));
    const group = new CfnFirewallRuleGroup(this, 'names', {
      name,
      firewallRules: [
        {
          priority: 100,
          action: 'ALLOW',
          firewallDomainListId: list('hosts', hosts),
          // Names of AWS may lead to others of AWS.
          firewallDomainRedirectionAction: 'TRUST_REDIRECTION_DOMAIN',
        },
        { priority: 200, action: 'BLOCK', blockResponse: 'NODATA', firewallDomainListId: list('others', ['*']) },
      ],
    });
    new CfnFirewallRuleGroupAssociation(this, 'names-of-network', {
      name,
      firewallRuleGroupId: group.attrId,
      vpcId: vpc.vpcId,
      priority: 101,
    });
  }
}

/** Allows actions of this account's principals through an endpoint, on ARNs in `Fn::Sub` notation. */
function allow(endpoint: InterfaceVpcEndpoint | GatewayVpcEndpoint, actions: string[], arns: string[]): void {
  endpoint.addToPolicy(
    new PolicyStatement({
      principals: [new AnyPrincipal()],
      actions,
      resources: arns.map((arn) => (arn === '*' ? arn : Fn.sub(arn))),
      conditions: BY_THIS_ACCOUNT,
    }),
  );
}
