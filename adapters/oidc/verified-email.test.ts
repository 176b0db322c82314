import { expect, test } from 'vitest';
import { isVerified } from './verified-email.ts';

const MICROSOFT = 'https://login.microsoftonline.com/0a1b2c3d-0000-4000-8000-000000000000/v2.0';

test.each([
  ['https://accounts.google.com', { email_verified: true }, true],
  ['https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x', { email_verified: 'true' }, true],
  ['https://accounts.google.com', { email_verified: 'false' }, false],
  ['https://accounts.google.com', { email_verified: 1 }, false],
  ['https://accounts.google.com', {}, false],
  ['https://accounts.google.com', { xms_edov: true }, false],
  [MICROSOFT, { xms_edov: true }, true],
  [MICROSOFT, { xms_edov: '1' }, true],
  [MICROSOFT, { xms_edov: 0 }, false],
  // The owner of a Microsoft tenant controls the claims in its tokens.
  [MICROSOFT, { email_verified: true }, false],
  ['https://login.microsoftonline.com.evil.example/v2.0', { xms_edov: true }, false],
])('%s, %j: %s', (issuer, claims, expected) => {
  expect(isVerified(issuer, claims)).toBe(expected);
});
