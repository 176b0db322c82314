import { paymentsSuite } from '#test/conformance/payments.ts';
import { scriptedPayments } from '#test/helpers/payments.ts';

paymentsSuite(async () => {
  let offset = 0;
  const now = () => Date.now() + offset;
  const advance = (ms: number) => {
    offset += ms;
  };
  const made = await scriptedPayments({ now, sleep: async () => {}, after: () => () => {} });
  return { ...made, now, pass: advance };
});
