import { Tags, Validations } from 'aws-cdk-lib';
import {
  type CfnSecurityGroup,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  type SubnetSelection,
  SubnetType,
  type Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import { openPorts, type ServicesSettings, type Stage } from '../config.ts';
import { importedVpc, subnetsOf, tenantVpc } from './tenant-vpc.ts';

/** Port of the runner in every instance: `GATEWAY_PORT` of core/ports/service-host.ts. */
const INSTANCE_PORT = 8080;
/** The image, the boot document, bundles and logs use HTTPS. */
const HTTPS = 443;

export interface ServicesNetworkProps {
  readonly stage: Stage;
  readonly settings: ServicesSettings;
}

/**
 * Network of always-on services. It contains nothing else, because security groups cannot deny addresses: apps must
 * find nothing here. By default instances have public addresses, and there is no NAT; only load balancers in the group
 * `inbound` reach them, so tenants reach each other only over public HTTPS.
 *
 * Addresses are IPv4 only. The hosts that apps connect to have IPv4 addresses, and IPv6 would require a second set of
 * rules; IPv6-only clients reach IPv4 hosts through their provider's translation. In the operator's own network only the
 * security groups are ours.
 */
export class ServicesNetwork extends Construct {
  readonly vpc: IVpc;
  readonly balancerSubnets: SubnetSelection;
  readonly instanceSubnets: SubnetSelection;
  readonly hasPublicAddresses: boolean;
  /** Security group of load balancers. */
  readonly inbound: SecurityGroup;
  /** Security group of instances. */
  readonly instances: SecurityGroup;

  constructor(scope: Construct, id: string, { stage, settings }: ServicesNetworkProps) {
    super(scope, id);
    const { vpc: existing, egress, outboundPorts } = settings;
    this.hasPublicAddresses = !existing && egress === 'public';
    if (existing) {
      this.vpc = importedVpc(this, existing.id);
      this.balancerSubnets = subnetsOf(this, 'balancers', existing.balancerSubnetIds);
      this.instanceSubnets = subnetsOf(this, 'instances', existing.instanceSubnetIds);
    } else {
      this.balancerSubnets = { subnetType: SubnetType.PUBLIC };
      this.instanceSubnets = { subnetGroupName: 'instances' };
      this.vpc = this.#addVpc(stage, settings);
    }

    this.inbound = new SecurityGroup(this, 'inbound', {
      vpc: this.vpc,
      description: 'Load balancers of services: in by HTTPS, out to instances only',
      allowAllOutbound: false,
    });
    this.instances = new SecurityGroup(this, 'instances', {
      vpc: this.vpc,
      description: 'Instances of services: in from their load balancers only',
      allowAllOutbound: false,
    });
    this.inbound.addIngressRule(Peer.anyIpv4(), Port.tcp(HTTPS), 'clients');
    this.inbound.addEgressRule(this.instances, Port.tcp(INSTANCE_PORT), 'requests');
    this.instances.addIngressRule(this.inbound, Port.tcp(INSTANCE_PORT), 'requests');
    for (const { from, to } of openPorts([HTTPS, ...outboundPorts, ...stage.egressPorts])) {
      this.instances.addEgressRule(Peer.anyIpv4(), from === to ? Port.tcp(from) : Port.tcpRange(from, to), 'apps');
    }
    // A gateway adds its own rule to this group, and its policy allows removing rules only from groups with this tag
    // (AmazonECSInfrastructureRoleForGatewayHostSharedALB).
    Tags.of(this.instances.node.defaultChild as CfnSecurityGroup).add('AmazonECSManaged', 'true');
    Validations.of(this.inbound).acknowledge({
      id: 'AwsSolutions-EC23',
      reason: 'Addresses of services are public: docs/services.md. Only HTTPS comes in.',
    });
  }

  #addVpc(stage: Stage, { zones, cidr, egress }: ServicesSettings): Vpc {
    return tenantVpc(this, {
      stage,
      name: 'services-network',
      cidr,
      zones,
      hasNat: egress === 'nat',
      subnetConfiguration: [
        egress === 'public'
          ? { name: 'instances', subnetType: SubnetType.PUBLIC, cidrMask: 22, mapPublicIpOnLaunch: false }
          : { name: 'instances', subnetType: SubnetType.PRIVATE_WITH_EGRESS, cidrMask: 22 },
        ...(egress === 'nat'
          ? [{ name: 'balancers', subnetType: SubnetType.PUBLIC, cidrMask: 24, mapPublicIpOnLaunch: false }]
          : []),
      ],
    });
  }
}
