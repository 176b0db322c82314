import { Aws, CfnOutput, CustomResource, Duration, Stack, Validations } from 'aws-cdk-lib';
import { CfnGateway, CfnGatewayClusterAssociations, type Cluster } from 'aws-cdk-lib/aws-ecs';
import {
  ApplicationLoadBalancer,
  ApplicationProtocol,
  IpAddressType,
  ListenerAction,
  ListenerCertificate,
  SslPolicy,
} from 'aws-cdk-lib/aws-elasticloadbalancingv2';
import { ManagedPolicy, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { LoadBalancerTarget } from 'aws-cdk-lib/aws-route53-targets';
import { Construct } from 'constructs';
import { platformNameOf, type ServicesSettings, type Stage } from '../config.ts';
import { addDomainRecord } from './domain-record.ts';
import type { PlatformFunction } from './platform-function.ts';
import type { ServicesNetwork } from './services-network.ts';

/** Ingress of services, with the settings for the functions that manage them. */
export interface ServiceIngress extends Construct {
  /** Members of the setting `PLATFORM_SERVICES` (`aws/services/settings.ts`). */
  readonly settings: Readonly<Record<string, string>>;
  /** Properties for `aws/services/remove-all.ts`. */
  readonly toClean: Readonly<Record<string, string>>;
}

const GATEWAY_POLICY = 'AmazonECSInfrastructureRoleForGatewayHostSharedALB';

export interface ServiceGatewayProps {
  readonly stage: Stage;
  readonly settings: ServicesSettings;
  readonly network: ServicesNetwork;
  readonly cluster: Cluster;
  /** Disables the deletion protection when the stack is deleted. */
  readonly cleaner: PlatformFunction;
}

/**
 * Addresses through an ECS gateway: each service gets an AWS host name with a certificate. ECS creates the load
 * balancers, none of them before the first service. Deployments fail in a Region without ECS gateways.
 */
export class ServiceGateway extends Construct implements ServiceIngress {
  readonly settings;
  readonly toClean;
  readonly gateway: CfnGateway;

  constructor(scope: Construct, id: string, { stage, settings, network, cluster, cleaner }: ServiceGatewayProps) {
    super(scope, id);
    const { account, region, partition } = Stack.of(this);
    const role = new Role(this, 'role', {
      description: 'ECS creates the load balancers of services with this role.',
      assumedBy: new ServicePrincipal('ecs.amazonaws.com', {
        conditions: {
          StringEquals: { 'aws:SourceAccount': account },
          ArnLike: { 'aws:SourceArn': `arn:${partition}:ecs:${region}:${account}:*` },
        },
      }),
      managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName(GATEWAY_POLICY)],
    });
    Validations.of(role).acknowledge({
      id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${GATEWAY_POLICY}]`,
      reason: 'Only AWS knows what a gateway creates. The policy changes only resources with the tag AmazonECSManaged.',
    });
    const gateway = new CfnGateway(this, 'gateway', {
      gatewayName: gatewayNameOf(stage),
      infrastructureRoleArn: role.roleArn,
      // Protects its load balancers, too.
      deletionProtection: stage.keepsData,
      propagateTags: 'GATEWAY',
      configuration: {
        hostSharedAlb: {
          scheme: 'internet-facing',
          maxAlbCount: settings.maxAlbs,
          networkConfiguration: {
            ipAddressType: 'ipv4',
            subnets: network.vpc.selectSubnets(network.balancerSubnets).subnetIds,
            inboundSecurityGroup: network.inbound.securityGroupId,
          },
        },
      },
    });
    this.gateway = gateway;
    const association = new CfnGatewayClusterAssociations(this, 'association', {
      gateway: gateway.attrArn,
      cluster: cluster.clusterArn,
    });
    if (stage.keepsData) {
      // Created right after the gateway, and so deleted right before it, even if a deployment fails halfway.
      const protection = new CustomResource(this, 'protection', {
        resourceType: 'Custom::LiftProtection',
        serviceToken: cleaner.lambda.functionArn,
        serviceTimeout: Duration.minutes(5),
        properties: { Gateway: gateway.attrArn },
      });
      association.node.addDependency(protection);
    }
    this.settings = { kind: 'ecs-gateway', gateway: gateway.attrArn };
    this.toClean = { Gateway: gateway.attrArn };
  }
}

/** The name is global in an account, so it contains the Region. */
export const gatewayNameOf = (stage: Stage): string => `${platformNameOf(stage)}-services-${Aws.REGION}`;

export interface ServiceBalancerProps {
  readonly stage: Stage;
  readonly domain: NonNullable<ServicesSettings['domain']>;
  readonly network: ServicesNetwork;
}

/** Response if no rule matches the host: the service is being created, or was deleted. */
const NO_SERVICE = JSON.stringify({
  error: {
    code: 'SERVICE_UNAVAILABLE',
    message: 'No service runs at this address, or it is only being started.',
    is_retryable: true,
  },
  metadata: {},
});

/**
 * Addresses below the operator's own domain: one load balancer, to which the platform adds a rule and a target group
 * for each service. AWS limits these to 100, which can be raised to a few hundred for rules but not for target groups.
 */
export class ServiceBalancer extends Construct implements ServiceIngress {
  readonly settings;
  readonly toClean;
  readonly loadBalancer: ApplicationLoadBalancer;

  constructor(scope: Construct, id: string, { stage, domain, network }: ServiceBalancerProps) {
    super(scope, id);
    const { vpc } = network;
    const loadBalancer = new ApplicationLoadBalancer(this, 'balancer', {
      loadBalancerName: `${platformNameOf(stage)}-services`,
      vpc,
      vpcSubnets: network.balancerSubnets,
      internetFacing: true,
      securityGroup: network.inbound,
      ipAddressType: IpAddressType.IPV4,
      // Equal to the idle timeout of the runner's gateway: docs/interface/service-instances.md.
      idleTimeout: Duration.minutes(10),
    });
    this.loadBalancer = loadBalancer;
    const listener = loadBalancer.addListener('https', {
      port: 443,
      protocol: ApplicationProtocol.HTTPS,
      sslPolicy: SslPolicy.RECOMMENDED_TLS,
      certificates: [ListenerCertificate.fromArn(domain.certificateArn)],
      // The network defines the group's rules.
      open: false,
      defaultAction: ListenerAction.fixedResponse(503, { contentType: 'application/json', messageBody: NO_SERVICE }),
    });
    Validations.of(loadBalancer).acknowledge({
      id: 'AwsSolutions-ELB2',
      reason:
        'Tenants log the visitors of their apps themselves; requests that the load balancer rejects show in its metrics.',
    });
    const { name: zoneName, hostedZoneId } = domain;
    if (hostedZoneId === undefined) {
      new CfnOutput(this, 'Target', {
        description: `Target of the alias or CNAME record of *.${zoneName}.`,
        value: loadBalancer.loadBalancerDnsName,
      });
    } else {
      addDomainRecord(this, { name: `*.${zoneName}`, hostedZoneId }, new LoadBalancerTarget(loadBalancer));
    }
    this.settings = { kind: 'alb', listener: listener.listenerArn, vpc: vpc.vpcId, domain: zoneName };
    this.toClean = { Listener: listener.listenerArn, Vpc: vpc.vpcId };
  }
}
