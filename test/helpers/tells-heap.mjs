import { PerformanceObserver } from 'node:perf_hooks';

// Loaded into a platform before it starts: answers each message with what its heap has, and how often it was collected. `empty` collects
// the heap before. It needs the flag --expose-gc.
let collections = 0;
new PerformanceObserver((list) => {
  collections += list.getEntries().length;
}).observe({ entryTypes: ['gc'] });

process.on('message', (message) => {
  if (message === 'empty') globalThis.gc();
  // Entries are told in a later turn of the event loop.
  setTimeout(() => process.send({ heapBytes: process.memoryUsage().heapUsed, collections }), 10);
});
process.channel.unref();
