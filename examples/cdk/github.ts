import { App, Aws, Stack } from 'aws-cdk-lib';
import { OidcProviderNative, PolicyDocument, PolicyStatement, Role, WebIdentityPrincipal } from 'aws-cdk-lib/aws-iam';

const REPOSITORY = 'acme/agents-in-our-account';
/** Of GitHub: its rules say who may deploy, from which branch. */
const ENVIRONMENT = 'prod';
const HOST = 'token.actions.githubusercontent.com';

// Deployed once, by hand: afterwards .github/workflows/deploy.yml deploys without a key of AWS in GitHub.
const stack = new Stack(new App(), 'agents-github', { env: { account: '111122223333', region: 'eu-west-1' } });
const provider = new OidcProviderNative(stack, 'github', { url: `https://${HOST}`, clientIds: ['sts.amazonaws.com'] });
const conditions = {
  StringEquals: {
    [`${HOST}:aud`]: 'sts.amazonaws.com',
    [`${HOST}:sub`]: `repo:${REPOSITORY}:environment:${ENVIRONMENT}`,
  },
};
new Role(stack, 'deploy', {
  roleName: 'agents-deploy',
  assumedBy: new WebIdentityPrincipal(provider.oidcProviderArn, conditions),
  inlinePolicies: {
    // The roles of `cdk bootstrap` may do what a deployment needs; this one may only take them.
    cdk: new PolicyDocument({
      statements: [
        new PolicyStatement({
          actions: ['sts:AssumeRole'],
          resources: [`arn:${Aws.PARTITION}:iam::${Aws.ACCOUNT_ID}:role/cdk-hnb659fds-*`],
        }),
      ],
    }),
  },
});
