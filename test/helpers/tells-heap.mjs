import { PerformanceObserver } from 'node:perf_hooks';

// Preloaded into a platform process: answers each message with the heap size and the number of garbage collections. The
// message `empty` collects garbage first. Requires the flag --expose-gc.
let collections = 0;
new PerformanceObserver((list) => {
  collections += list.getEntries().length;
}).observe({ entryTypes: ['gc'] });

process.on('message', (message) => {
  if (message === 'empty') globalThis.gc();
  // Performance entries arrive in a later turn of the event loop.
  setTimeout(() => process.send({ heapBytes: process.memoryUsage().heapUsed, collections }), 10);
});
process.channel.unref();
